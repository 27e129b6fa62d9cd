"""Pages for tests, with navigation around their texts."""

from __future__ import annotations


def article(title: str, *paragraphs: str, language: str = "en", head: str = "") -> str:
    """A page with a main text, and navigation, a side bar and a footer around it."""
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (
        f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>{head}</head><body>'
        '<nav><ul><li><a href="/">Home</a></li><li><a href="/shop">Shop navigation</a></li></ul></nav>'
        f"<main><article><h1>{title}</h1>{body}</article></main>"
        '<aside><a href="/ads">Advertisement in the side bar</a></aside>'
        "<footer><p>Footer with an imprint and cookies</p></footer></body></html>"
    )


TEA = article(
    "Brewing tea",
    "Black tea is brewed for three to five minutes in water that has just boiled. Longer brewing makes it bitter, "
    "because more tannins are dissolved.",
    "Green tea needs cooler water of about seventy degrees, and at most two minutes. The leaves can be used again.",
    head='<meta property="article:published_time" content="2026-03-14T08:00:00Z">',
)
COFFEE = article(
    "Roasting coffee",
    "Coffee beans are roasted at about two hundred degrees. The longer they are roasted, the darker and the less acid "
    "they become.",
    "After roasting, the beans release gas for several days, so that fresh beans are packed in bags with a valve.",
)
