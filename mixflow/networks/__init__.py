"""WHO learns: each network as a specification (a frozen dataclass) of what is trained."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .own import Network
    from .transformer import Transformer
    from .vanilla import Vanilla

    AnyNetwork: TypeAlias = Transformer | Vanilla | Network
