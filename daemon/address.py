"""Where to listen: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`."""

import ipaddress
import re

from msgspec import Struct

from events.errors import SettingsError


class Address(Struct, frozen=True):
    """A host, as a name or a number without brackets, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse an address. The host is required, so that listening on all interfaces is never an accident."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]\s/]+)):(\d{1,5})", text)
    if found is None or int(found[3]) > 65535:
        raise SettingsError(f"{text!r} is no address to listen on, such as 127.0.0.1:8080")
    return Address(host=found[1] or found[2], port=int(found[3]))
