"""The documentation of the API as a page that works offline."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html

_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""Swagger UI has an inline script and inline styles."""


def docs_router() -> APIRouter:
    """Return the route `/docs`."""
    router = APIRouter()

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        static = "static-offline-docs"
        page = get_swagger_ui_html(
            openapi_url="openapi.json",
            title="pulsed: API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )
        page.headers["content-security-policy"] = _POLICY
        return page

    return router
