"""Numbers of seven bits a byte, as footers of ORC and Parquet hold them."""

from icectl.files.arrow_failures import damaged_data_file


def read_varint(content: bytes, at: int, file_format: str) -> tuple[int, int]:
    """Read one number of seven bits a byte, the lowest first; returns it and where it ends.

    Raises: CorruptTable R-095, naming the format, where it has no end.
    """
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise damaged_data_file(file_format, "its footer has a number without an end")
