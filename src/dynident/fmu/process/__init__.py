"""An FMU in a process of its own: crashes and hangs stay there."""
