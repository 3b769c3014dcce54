"""Bytes become frames, wherever they are cut."""

from __future__ import annotations

import time

import pytest

from rejoin import Frame, ResponseError, SseParser

TEXT = (
    "\ufeffretry: 1234\n\n:hb\n\nid: 1\ndata: {\"a\":\"ä€😀\"}\n\r\nid:2\r\ndata: x\r\ndata\r\ndata:  y\r\n\r\n"
    "event: e\rdata: z\r\rid: 9\n\n: c\nnonsense\ndata: last\n\n"
)  # fmt: skip
FRAMES = [Frame("1", None, '{"a":"ä€😀"}'), Frame("2", None, "x\n\n y"), Frame(None, "e", "z"), Frame(None, None, "last")]
BYTES = TEXT.encode()


def parse(*pieces: bytes) -> list[Frame]:
    parser = SseParser()
    frames = [frame for piece in pieces for frame in parser.push(piece)]
    assert parser.retry_s == 1.234
    return frames


def test_frames_are_the_same_wherever_the_bytes_are_cut() -> None:
    for one in range(len(BYTES) + 1):
        for two in range(one, len(BYTES) + 1):
            assert parse(BYTES[:one], BYTES[one:two], BYTES[two:]) == FRAMES, f"cut at {one} and {two}"


def test_frames_are_the_same_byte_by_byte() -> None:
    assert parse(*(bytes([byte]) for byte in BYTES)) == FRAMES


def test_a_frame_that_is_not_finished_is_not_returned() -> None:
    parser = SseParser()
    assert parser.push(b"id: 1\ndata: half") == []
    assert parser.push(b"\n") == []
    assert parser.push(b"\n") == [Frame("1", None, "half")]


def test_an_id_with_a_nul_and_a_retry_that_is_no_number_are_ignored() -> None:
    parser = SseParser()
    assert parser.push("id: 1\0\nretry: 1s\nretry: ²\ndata: x\n\n".encode()) == [Frame(None, None, "x")]
    assert parser.retry_s is None


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    assert SseParser().push(b"data: a\xffb\n\n") == [Frame(None, None, "a\ufffdb")]


def test_a_line_that_is_too_long_is_an_error() -> None:
    parser = SseParser(line_max_bytes=10)
    assert parser.push(b"data: 1234\n\n") == [Frame(None, None, "1234")]
    parser.push(b"data: 1")
    with pytest.raises(ResponseError, match="longer than 10 bytes"):
        parser.push(b"23456")


def test_a_long_line_in_small_pieces_takes_time_that_grows_with_its_length_only() -> None:
    piece = b"x" * 1024

    def measure(pieces: int) -> float:
        parser = SseParser()
        began = time.perf_counter()
        parser.push(b"data: ")
        for _ in range(pieces):
            parser.push(piece)
        (frame,) = parser.push(b"\n\n")
        assert len(frame.data) == pieces * 1024
        return time.perf_counter() - began

    few, many = (min(measure(pieces) for _ in range(3)) for pieces in (1000, 16_000))
    # Sixteen times the length; the square would take 256 times as long.
    assert many < max(few, 0.003) * 100
