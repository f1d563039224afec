"""Access control: only requests of the page itself, at the addresses it uses, are answered.

A browser lets any web page send requests to 127.0.0.1, and any host name can be made to resolve to 127.0.0.1. So each
request is checked by the headers that browsers set and pages cannot change (Host, Origin, Sec-Fetch-Site), and requests
that change something must carry a random token that only our own page can read. Cookies would not help, because
browsers send them to every port of a host.
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frostbench.app.server.accounts import REALM, Accounts
from frostbench.app.workbench.documents import TABS

HOSTS = ("127.0.0.1", "localhost")
TOKEN = "x-frostbench-token"
STALE = "x-frostbench-stale"
"""Response header that makes a page of an earlier server reload itself."""
READ = ("GET", "HEAD")
WRONG_SECONDS = 1.0
"""How long a wrong password is not answered."""
API = (
    "/config",
    "/gradio_api/info",
    "/gradio_api/queue/data",
    "/gradio_api/queue/join",
    "/gradio_api/reset",
    "/gradio_api/cancel",
)
"""Addresses of Gradio that its Python client uses; none of them reads or fetches files."""
DOCUMENTS = ("/", *TABS.values())
"""Addresses that a link on another page may open, as full documents."""
ADDRESSES = (*DOCUMENTS, "/favicon.ico", *API)
"""Addresses that are served."""
BELOW = ("/frostbench/", "/gradio_api/call/")
"""Prefixes of further addresses that are served."""
ANSWERS: Mapping[str, str] = {
    # Nothing may be loaded from or sent to other hosts. Inline are one script, which sets the theme before the page is
    # drawn, and the widths of bars.
    "content-security-policy": (
        "default-src 'self' 'unsafe-inline' data: blob:; base-uri 'self'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
}
"""Headers of every response, so that no other page can frame or read it and browsers do not guess its type."""


@dataclass(frozen=True)
class Refusal:
    """The response to a refused request.

    Attributes:
        status: HTTP status.
        sentence: text of the response.
        headers: additional headers.
    """

    status: HTTPStatus
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Doors:
    """ASGI middleware around the application, including Gradio's routes, which refused requests never reach.

    Attributes:
        app: the wrapped application.
        token: token required in requests that change something.
        accounts: who may use the page from other machines; None serves this machine alone.
    """

    app: ASGIApp
    token: str
    accounts: Accounts | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            # The page opens no web socket. Closing before accepting responds with 403.
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                _guard(MutableHeaders(scope=message))
            await send(message)

        headers = Headers(scope=scope)
        refusal = await self._unknown(headers)
        refusal = refusal or refusal_of(scope["method"], scope["path"], headers, self.token, self.accounts is not None)
        if refusal is None:
            await self.app(scope, receive, answer)
        else:
            response = PlainTextResponse(refusal.sentence, refusal.status, dict(refusal.headers))
            await response(scope, receive, answer)

    async def _unknown(self, headers: Headers) -> Refusal | None:
        """Return the refusal of a request without a known name and password; wrong ones are answered slowly."""
        stated = headers.get("authorization")
        if self.accounts is None or self.accounts.allow(stated):
            return None
        if stated is not None:
            await asyncio.sleep(WRONG_SECONDS)
        challenge = {"www-authenticate": f'Basic realm="{REALM}", charset="UTF-8"'}
        return Refusal(HTTPStatus.UNAUTHORIZED, "The page asks for a name and a password.", challenge)


def refusal_of(method: str, path: str, headers: Headers, token: str, is_shared: bool = False) -> Refusal | None:
    """Return the refusal of a request, or None if it is allowed.

    A shared page, which asks for passwords, is served under any host name, and also behind a proxy with https: a page
    under a foreign name has no password.
    """
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or (not is_shared and hosts[0].partition(":")[0] not in HOSTS):
        return Refusal(HTTPStatus.BAD_REQUEST, f"The page is served at {' or '.join(HOSTS)}, not at {hosts}.")
    schemes = ("http", "https") if is_shared else ("http",)
    if any(origin not in [f"{scheme}://{hosts[0]}" for scheme in schemes] for origin in origins):
        return _foreign(f"came from {origins}", hosts[0])
    if not _is_own(headers) and not _is_navigation(method, path, headers):
        return _foreign("came from another page", hosts[0])
    if path not in ADDRESSES and not path.startswith(BELOW):
        return Refusal(HTTPStatus.NOT_FOUND, "The page has no such address.")
    if method not in READ and not secrets.compare_digest(headers.get(TOKEN, "").encode(), token.encode()):
        sentence = "The request does not carry the token of this server. Reload the page."
        return Refusal(HTTPStatus.FORBIDDEN, sentence, {STALE: "1"})
    return None


def _is_own(headers: Headers) -> bool:
    """Whether no header says that another page sent the request; programs other than browsers send no such header."""
    return all(site in ("same-origin", "none") for site in headers.getlist("sec-fetch-site"))


def _is_navigation(method: str, path: str, headers: Headers) -> bool:
    """Whether a link to the page was followed, which opens it as a full document."""
    fetch = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return method == "GET" and path in DOCUMENTS and fetch == ("navigate", "document")


def _foreign(origin: str, host: str) -> Refusal:
    sentence = f"The server only answers its own page, but the request {origin}. Open http://{host}/ in a new tab."
    return Refusal(HTTPStatus.FORBIDDEN, sentence)


def _guard(headers: MutableHeaders) -> None:
    """Replace Gradio's CORS headers, which let every port of this machine read its responses."""
    for name in [name for name in headers if name.startswith("access-control-")]:
        del headers[name]
    headers.update(ANSWERS)
