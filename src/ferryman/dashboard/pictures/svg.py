"""Elements of SVG and HTML as text: everything given is escaped, and there is no style but classes (pages allow no other)."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out, `class_` is class, and `_` stands for `-`."""
    told = [
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _short(value))
        for key, value in attributes.items()
        if value is not None
    ]
    inside = Markup("").join(escape(each) for each in children)
    return Markup("<{}{}>{}</{}>").format(Markup(name), Markup("").join(told), inside, Markup(name))


def drawing(*children: object, width: float, height: float, class_: str, says: str) -> Markup:
    """Return a drawing that stretches to the room it is given; `says` is what it tells those who do not see it."""
    return element(
        "svg", *children,
        class_=class_, viewBox=f"0 0 {_short(width)} {_short(height)}", preserveAspectRatio="none", role="img",
        aria_label=says,
    )  # fmt: skip


def title(text: str) -> Markup:
    """Return what is shown when a shape is pointed at."""
    return element("title", text)


def points(pairs: Iterable[tuple[float, float]]) -> str:
    """Return places as a path writes them."""
    return " ".join(f"{_short(x)},{_short(y)}" for x, y in pairs)


def _short(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
