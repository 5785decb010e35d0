"""Security: who may ask? This machine, this page, with a key that was had for a one-time token."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping

LARGEST_BODY = 1 << 20  # bytes
MOST_KEYS = 32  # pages with a key of their own, reloads included
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")
REPORT_POLICY = ("sandbox allow-scripts allow-popups; default-src 'none'; script-src 'unsafe-inline'; style-src "
                 "'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'none'")  # an origin of its own
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
           "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY", "Cache-Control": "no-store"}


class Keys:
    """Tokens open once; the key that is given for one is asked for with every request."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tokens: set[str] = set()
        self.keys: list[str] = []
        self.tickets: dict[str, str] = {}  # of a report: opens one page once

    def new_token(self) -> str:
        with self.lock:
            token = secrets.token_urlsafe(24)
            self.tokens.add(token)
            return token

    def exchange(self, token: object) -> str | None:
        """The key for a token that was not used yet; None for every other."""
        with self.lock:
            found = [each for each in self.tokens if isinstance(token, str) and secrets.compare_digest(
                each.encode(), token.encode())]
            if not found:
                return None
            self.tokens.remove(found[0])
            self.keys = [*self.keys, secrets.token_urlsafe(32)][-MOST_KEYS:]
            return self.keys[-1]

    def holds(self, authorization: str | None) -> bool:
        """Whether a request carries a key."""
        kind, _, key = (authorization or "").partition(" ")
        return kind == "Bearer" and any(secrets.compare_digest(each.encode(), key.encode()) for each in self.keys)

    def new_ticket(self, what: str) -> str:
        with self.lock:
            ticket = secrets.token_urlsafe(24)
            self.tickets[ticket] = what
            return ticket

    def redeem(self, ticket: str) -> str | None:
        with self.lock:
            return self.tickets.pop(ticket, None)


def allowed_hosts(port: int) -> tuple[str, ...]:
    """Names under which a page on this machine reaches us; another one is a name that somebody else points here."""
    return f"127.0.0.1:{port}", f"localhost:{port}"


def foreign(headers: Mapping[str, str], port: int, navigation: bool) -> str:
    """Why a request does not come from our page, in a sentence; empty where it may.

    `navigation`: the address was typed, or followed from a link; a browser says so, and only the bare page is given for it.
    """
    if headers.get("Host") not in allowed_hosts(port):
        return "This address is not for this server."
    origin = headers.get("Origin")
    if origin is not None and origin not in tuple(f"http://{host}" for host in allowed_hosts(port)):
        return "Another page may not ask this server."
    site = headers.get("Sec-Fetch-Site")
    if site in (None, "same-origin", "none"):
        return ""
    return "" if navigation and headers.get("Sec-Fetch-Mode") == "navigate" else "Another page may not ask this server."
