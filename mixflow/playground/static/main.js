// The page begins: what it offers stands in it as JSON.

import { open } from "./app.js";

open(JSON.parse(document.getElementById("config").textContent));
