"""The proxy that the environment asks for, looked up once and not for each request."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from events.errors import SettingsError


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """What HTTPS_PROXY or HTTP_PROXY say, unless NO_PROXY names the host; None for no proxy."""
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    proxy = _either(environment, name)
    if not proxy or _is_exempt(parts.hostname or "", _either(environment, "no_proxy")):
        return None
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", name)


def checked_proxy(proxy: str, where: str) -> str:
    """A proxy of a kind that we can speak to."""
    if not proxy.startswith(("http://", "https://")):
        # The address may hold a password.
        kind = proxy.partition("://")[0]
        raise SettingsError(f"{where}: a proxy must be http:// or https://, not {kind}://")
    return proxy


def _is_exempt(host: str, no_proxy: str) -> bool:
    """As Go reads it: this machine, `*`, names with all under them, addresses and ranges of them."""
    names = [name.strip().lower() for name in no_proxy.split(",") if name.strip()]
    names += ["localhost", "127.0.0.0/8", "::1"]
    return "*" in names or any(_covers(name, host.lower()) for name in names)


def _covers(name: str, host: str) -> bool:
    if host == name or host.endswith("." + name.lstrip(".")):
        return True
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return False


def _either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""
