"""State files (agent/base/state_file.h): what our programs keep over their own end."""


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def text_of(what, content, version=1):
    """The whole file."""
    return f"tpu-state {what} {version} {crc32c(content.encode()):08x}\n{content}"


def content_of(path):
    """What the file keeps; a file that is not whole is an error."""
    head, content = path.read_text().split("\n", 1)
    magic, _, _, crc = head.split(" ")
    assert magic == "tpu-state" and int(crc, 16) == crc32c(content.encode()), head
    return content
