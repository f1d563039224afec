"""What may come in: requests of the page itself, at the addresses that it uses, and nothing else.

A browser lets every page that it shows send requests to 127.0.0.1, other ports of it included, and a name that is not
ours can be made to mean 127.0.0.1. So each request is judged by what browsers say of it and pages cannot change (Host,
Origin, Sec-Fetch-Site), and what changes anything must carry a random token that only our own page can read. Cookies
would be no help: browsers send them to every port of a host.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import resources

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
TOKEN = "x-frostbench-token"
STALE = "x-frostbench-stale"
"""Header of an answer that tells a page of an earlier server to load itself anew."""
READ = ("GET", "HEAD")
ADDRESSES = (
    "/",
    "/config",
    "/favicon.ico",
    "/manifest.json",
    "/theme.css",
    "/gradio_api/cancel",
    "/gradio_api/component_server",
    "/gradio_api/component_server/",
    "/gradio_api/info",
    "/gradio_api/queue/data",
    "/gradio_api/queue/join",
    "/gradio_api/reset",
    "/gradio_api/run/predict",
    "/gradio_api/theme.css",
)
"""What is served; of Gradio's own addresses those that the page needs, so none that takes, reads or fetches files."""
BELOW = ("/assets/", "/static/", "/svelte/", "/frostbench/")
"""Addresses that begin like this are served as well."""
ANSWERS: Mapping[str, str] = {
    # Scripts and styles stand in the page itself, and Gradio compiles scripts of its components; nothing may be had
    # from or sent to anywhere else.
    "content-security-policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; base-uri 'self'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
}
"""Headers of every answer: no other page may frame it, read it or guess what it is."""


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered.

    Attributes:
        status: of HTTP.
        sentence: what the answer says.
        headers: what is added to it.
    """

    status: HTTPStatus
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Doors:
    """Wraps the whole application, Gradio's routes included: what is refused never reaches it.

    Attributes:
        app: what answers.
        token: what requests that change something must carry.
    """

    app: ASGIApp
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            # The page opens no web socket. Closing before accepting is answered with 403.
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                _guard(MutableHeaders(scope=message))
            await send(message)

        refusal = refusal_of(scope["method"], scope["path"], Headers(scope=scope), self.token)
        if refusal is None:
            await self.app(scope, receive, answer)
        else:
            told = PlainTextResponse(refusal.sentence, refusal.status, dict(refusal.headers))
            await told(scope, receive, answer)


def refusal_of(method: str, path: str, headers: Headers, token: str) -> Refusal | None:
    """Why a request is not answered; None where it is."""
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or hosts[0].partition(":")[0] not in HOSTS:
        return Refusal(HTTPStatus.BAD_REQUEST, f"the page is at {' or '.join(HOSTS)}, however: {hosts} was asked for.")
    if any(origin != f"http://{hosts[0]}" for origin in origins):
        return _foreign(f"one of {origins}", hosts[0])
    if not _is_own(headers) and not _is_a_visit(method, path, headers):
        return _foreign("another page's", hosts[0])
    if path not in ADDRESSES and not path.startswith(BELOW):
        return Refusal(HTTPStatus.NOT_FOUND, "the page has no such address.")
    if method not in READ and not secrets.compare_digest(headers.get(TOKEN, "").encode(), token.encode()):
        told = "a request that changes something carries the page's token, however: it had another or none. Reload."
        return Refusal(HTTPStatus.FORBIDDEN, told, {STALE: "1"})
    return None


def _is_own(headers: Headers) -> bool:
    """Whether a browser says that the request is of our own page or of a person; programs say nothing."""
    return all(site in ("same-origin", "none") for site in headers.getlist("sec-fetch-site"))


def _is_a_visit(method: str, path: str, headers: Headers) -> bool:
    """Whether a link was followed to the page: then it comes as a whole, in a tab of its own."""
    seen = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return method == "GET" and path == "/" and seen == ("navigate", "document")


def _foreign(whose: str, host: str) -> Refusal:
    told = f"the page answers only itself, however: the request is {whose}. Open http://{host}/ in a tab of its own."
    return Refusal(HTTPStatus.FORBIDDEN, told)


def _guard(headers: MutableHeaders) -> None:
    """Gradio lets every port of this machine read its answers; ours are for the page alone."""
    for name in [name for name in headers if name.startswith("access-control-")]:
        del headers[name]
    headers.update(ANSWERS)


def script_with(token: str) -> str:
    """The script by which the page's own requests carry the token."""
    script = (resources.files("frostbench.app.page") / "requests.js").read_text("utf-8")
    return f"<script>{script.replace('TOKEN_OF_THIS_SERVER', token)}</script>"
