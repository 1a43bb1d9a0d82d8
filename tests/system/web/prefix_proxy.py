"""A reverse proxy that serves a daemon below a path, which it removes: `PORT TARGET PREFIX`. Streams pass through."""

from __future__ import annotations

import sys

from aiohttp import ClientSession, ClientTimeout, web

HOP_BY_HOP = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})


def application(target: str, prefix: str) -> web.Application:
    async def forward(request: web.Request) -> web.StreamResponse:
        accept = {"accept": request.headers.get("accept", "")}
        url = f"{target}/{request.match_info['rest']}"
        async with (
            ClientSession(timeout=ClientTimeout(total=None)) as session,
            session.get(url, params=request.query, headers=accept) as found,
        ):
            kept = {name: value for name, value in found.headers.items() if name.lower() not in HOP_BY_HOP}
            answer = web.StreamResponse(status=found.status, headers=kept)
            await answer.prepare(request)
            async for chunk in found.content.iter_any():
                await answer.write(chunk)
            return answer

    app = web.Application()
    app.router.add_get(f"{prefix}/{{rest:.*}}", forward)
    return app


if __name__ == "__main__":
    web.run_app(application(sys.argv[2], sys.argv[3]), host="127.0.0.1", port=int(sys.argv[1]), print=None)
