"""Files and folders that systems leave among a user's own, and that nobody means as data."""

SYSTEMS = frozenset(
    {
        "$recycle.bin",  # Windows
        "desktop.ini",
        "system volume information",
        "thumbs.db",
        "icon\r",  # macOS
        "__macosx",
        "@eadir",  # network storage
        "#recycle",
        "lost+found",  # Linux
    }
)


def is_litter(name: str) -> bool:
    """Whether a file or folder of this name is hidden or a system's own."""
    return name.startswith(".") or name.casefold() in SYSTEMS
