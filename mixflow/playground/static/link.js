// The socket: messages out, binary frames in, and patience while the server is away.

const MAGIC = "MXF1";
const ARRAYS = { float64: Float64Array, float32: Float32Array, uint8: Uint8Array };

// Events: "open", "gone", "frame" ({header, arrays}).
export class Link extends EventTarget {
  constructor() {
    super();
    this.wait = 250;
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(`ws://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.wait = 250;
      this.dispatchEvent(new Event("open"));
    };
    this.socket.onmessage = (event) => this.dispatchEvent(new CustomEvent("frame", { detail: decode(event.data) }));
    this.socket.onclose = () => {
      this.dispatchEvent(new Event("gone"));
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 2, 4000);
    };
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  get gone() {
    return this.socket.readyState >= WebSocket.CLOSING;
  }

  send(message) {
    if (this.open) this.socket.send(JSON.stringify(message));
  }
}

// The layout is described in frames.py.
export function decode(buffer) {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, 4));
  if (magic !== MAGIC) throw new Error("not a mixflow frame");
  const length = view.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  for (const [name, kind, shape, offset] of header.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, data: new ARRAYS[kind](buffer, 8 + length + offset, count) };
  }
  return { header, arrays };
}
