"""The LETOR reader against a slow, obvious parser, on good, broken and random text."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from letor_reference import NUMBER, BadLineError, float32, reference

from saferank._core.threads import use_threads
from saferank.data import read_letor
from saferank.data.letor import text_blocks
from saferank.data.letor.reading import count_features
from saferank.errors import InputError


def check(path: Path, text: bytes) -> None:
    """Reader and reference agree on the arrays, bit by bit, or on the line that is wrong."""
    try:
        expected = reference(text)
    except BadLineError as bad:
        line = r"\d+" if bad.args[0] is None else bad.args[0]
        with pytest.raises(InputError, match=rf"line {line}: "):
            read_letor(path)
        return
    data = read_letor(path)
    assert data.features.tobytes() == expected["features"].tobytes()
    assert data.features.shape == expected["features"].shape
    assert data.labels.tobytes() == expected["labels"].tobytes()
    assert data.offsets.tolist() == expected["offsets"]
    assert data.query_ids.tolist() == expected["query_ids"]
    assert (data.doc_ids is None) == (expected["doc_ids"] is None)
    if data.doc_ids is not None:
        assert data.doc_ids.tolist() == expected["doc_ids"]
    assert count_features(path) == data.width


numbers = st.one_of(
    st.from_regex(rb"\A[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?\Z"),
    st.floats(width=32).map(lambda x: repr(float(np.float32(x))).encode()),
    st.floats().map(lambda x: repr(x).encode()),
    st.sampled_from([b"0", b"1", b"-0", b"0.000000", b"1e-400", b"1e400", b"nan", b"inf", b"0x1"]),
)
whites = st.sampled_from([b" ", b" ", b" ", b"\t", b"  ", b" \r"])
indices = st.one_of(st.integers(1, 12), st.sampled_from([0, -1, 99999, 100001, 10**30]))
comments = st.sampled_from(
    [
        b"",
        b"",
        b"#docid = GX1-2",
        b"# docid=7 inc = 1",
        b"#docid = \xc3\xa9",
        b"#docid = \xff",
        b"#",
    ]
)


@st.composite
def near_lines(draw: st.DrawFn) -> bytes:
    """A line that is good, or nearly."""
    good = draw(st.integers(0, 9)) > 0
    label = draw(st.sampled_from([b"0", b"1", b"2.5", b"+3", b"4e0"]) if good else numbers)
    query = draw(st.sampled_from([b"1", b"1", b"2", b"03", b"a-b", b"\xc3\xa9"]))
    words = [label, b"qid:" + query]
    chosen = draw(st.lists(st.integers(1, 12) if good else indices, max_size=5, unique=True))
    for index in sorted(chosen) if good else chosen:
        words.append(str(index).encode() + b":" + draw(numbers))
    line = draw(whites).join(words) + draw(comments)
    if draw(st.integers(0, 19)) == 0 and line:
        place = draw(st.integers(0, len(line) - 1))
        line = line[:place] + draw(st.binary(max_size=2)) + line[place + 1 :]
    return line + draw(st.sampled_from([b"", b"", b" ", b"\r"]))


near_files = st.lists(
    st.one_of(near_lines(), near_lines(), st.sampled_from([b"", b"# words", b" \t"])), max_size=8
).map(b"\n".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("letor")


@settings(max_examples=300, deadline=None)
@given(text=near_files, end=st.sampled_from([b"", b"\n", b"\r\n"]))
@example(text=b"0 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1", end=b"\n")
@example(text=b"0 qid:1 7:1 3:1", end=b"")
@example(text=b"0 qid:1 1:\n0:1 2:3", end=b"")
def test_near_valid_text_is_read_as_by_the_reference(folder: Path, text: bytes, end: bytes) -> None:
    path = folder / "near.txt"
    path.write_bytes(text + end)
    check(path, text + end)


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(st.binary(max_size=60), st.text("01qid:# \n.e-", max_size=60).map(str.encode))
)
def test_random_bytes_never_crash(folder: Path, text: bytes) -> None:
    path = folder / "random.txt"
    path.write_bytes(text)
    if text.startswith(b"\x1f\x8b"):
        with pytest.raises(InputError):
            read_letor(path)
    else:
        check(path, text)


@settings(max_examples=60, deadline=None)
@given(text=near_files)
def test_gzip_reads_the_same(folder: Path, text: bytes) -> None:
    path = folder / "near.txt.gz"
    path.write_bytes(gzip.compress(text, compresslevel=1))
    check(path, text)


@settings(max_examples=60, deadline=None)
@given(text=near_files, size=st.integers(1, 40))
def test_blocks_of_any_size_read_the_same(folder: Path, text: bytes, size: int) -> None:
    path = folder / "blocks.txt"
    path.write_bytes(text)
    plain = text_blocks.blocks.__kwdefaults__
    before = plain["size"]
    plain["size"] = size
    try:
        check(path, text)
    finally:
        plain["size"] = before


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers.filter(NUMBER.fullmatch), min_size=20, max_size=60))
def test_every_value_is_pythons_float_in_float32(folder: Path, values: list[bytes]) -> None:
    values = [value for value in values if math.isfinite(float32(value))]
    path = folder / "values.txt"
    words = b" ".join(b"%d:%s" % (index, value) for index, value in enumerate(values, start=1))
    path.write_bytes(b"0 qid:1 " + words)
    expected = np.array([float32(value) for value in values], dtype=np.float32)
    assert read_letor(path).features.tobytes() == expected.tobytes()


def halfway(rng: np.random.Generator) -> bytes:
    """A decimal that lies exactly, or by one digit in 40, beside the middle of two float32."""
    low = np.float32(rng.lognormal(0, 20))
    middle = (float(low) + float(np.nextafter(low, np.float32(np.inf)))) / 2
    digits = f"{middle:.60e}"
    mantissa, exponent = digits.split("e")
    nudge = rng.choice(["", "1", "0000000001"])
    return f"{mantissa[:45]}{nudge}e{exponent}".encode()


def test_values_between_two_floats_are_rounded_once_through_float64(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = [halfway(rng) for _ in range(400)]
    path = tmp_path / "halfway.txt"
    pairs = [b"%d:%s" % (index, value) for index, value in enumerate(values, start=1)]
    path.write_bytes(
        b"\n".join(b"0 qid:1 " + b" ".join(pairs[at : at + 20]) for at in range(0, 400, 20))
    )
    got = read_letor(path).features
    for place, value in enumerate(values):
        assert got[place // 20, place] == np.float32(float(value)), value


MIDDLE = b"1.000000059604644775390625"


@pytest.mark.parametrize(
    "lines",
    [
        [b"0 qid:1 1:" + MIDDLE, b"0 qid:1 1:" + MIDDLE + b" 2:x", b"0 qid:1 1:" + MIDDLE],
        [b"0 qid:1 1:" + MIDDLE, MIDDLE + b" 1:1"],
        [MIDDLE + b" qid:1 2:" + MIDDLE + b"1", b"-" + MIDDLE + b" qid:1"],
        [MIDDLE + b" qid:1 2:" + MIDDLE + b"1", b"# " + MIDDLE, b"0 qid:1\t3:-" + MIDDLE + b"#\r"],
        [b"0 qid:1 1:3.4028235677973366e38", b"0 qid:1 1:x"],
        [b"0 qid:1 1:3.4028235677973365999999999", b"3.40282356779733661637539395458e38 qid:1"],
    ],
)
def test_lines_with_values_between_two_floats_keep_the_rules(
    tmp_path: Path, lines: list[bytes]
) -> None:
    path = tmp_path / "middle.txt"
    path.write_bytes(b"\n".join(lines))
    check(path, b"\n".join(lines))


def test_sort_brings_scattered_queries_together(tmp_path: Path) -> None:
    path = tmp_path / "scattered.txt"
    path.write_text(
        "".join(f"{i % 3} qid:{q} 1:{i} #docid = d{i}\n" for i, q in enumerate("abacab"))
    )
    with pytest.raises(InputError, match=r"line 3: .*query 'a' had ended"):
        read_letor(path)
    data = read_letor(path, sort=True)
    assert data.query_ids.tolist() == ["a", "b", "c"]
    assert data.offsets.tolist() == [0, 3, 5, 6]
    assert data.features[:, 0].tolist() == [0, 2, 4, 1, 5, 3]
    assert data.doc_ids.tolist() == ["d0", "d2", "d4", "d1", "d5", "d3"]
    assert data.labels.tolist() == [0, 2, 1, 1, 2, 0]


def test_the_number_of_features_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "narrow.txt"
    path.write_text("0 qid:1 2:1\n1 qid:1 3:1\n")
    assert read_letor(path, features=5).features.shape == (2, 5)
    with pytest.raises(InputError, match=r"line 2: .*at most `features`=2; got '3:1'"):
        read_letor(path, features=2)


def test_memory_is_checked_before_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt"
    path.write_text("0 qid:1 1:1\n" * 99 + "0 qid:1 100000:1\n")
    with pytest.raises(InputError, match=r"line 100: 100 documents x 100000 features .*limit"):
        read_letor(path, limit=10**6)


def test_values_beyond_float32_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "beyond.txt"
    path.write_text("0 qid:1 1:1.79769313486e+308 2:-1e39 3:3.4028235677973366e38 4:3.4e38\n")
    with pytest.raises(InputError, match=r"line 1: .*finite.*1:1.79769313486e\+308"):
        read_letor(path)
    expected = [[1e6, -1e6, 1e6, np.float32(3.4e38)]]
    assert read_letor(path, beyond=1e6).features.tolist() == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x qid:1 1:1", "a label that is a finite number, at least 0; got 'x'"),
        ("-1 qid:1 1:1", "a label that is a finite number, at least 0; got '-1'"),
        ("1 1:1", "`qid:` and an id of at most 255 bytes as the second word; got '1:1'"),
        ("1", "`qid:` and an id of at most 255 bytes as the second word; got the end of the line"),
        ("1 qid:1 5", "a feature as index:value; got '5'"),
        ("1 qid:1 1:nan", "a finite decimal number (in float32) after the colon; got '1:nan'"),
        ("1 qid:1 1:1 1:2", "feature indices that increase along the line; got '1:2'"),
        ("1 qid:1 0:1", "a feature index from 1 to 100000; got '0:1'"),
        ("1 qid:1 1:1 #docid = " + "x" * 256, "a docid of at most 255 bytes; got '#docid'"),
    ],
)
def test_a_bad_line_gets_one_sentence(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"# words\n\n0 qid:0 1:1\n{line}\n0 qid:9 x\n")
    with pytest.raises(InputError) as raised:
        read_letor(path)
    assert str(raised.value) == f"{path}, line 4: expected {expected}."


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(gzip.compress(b"0 qid:1 1:1\n" * 10_000)[:-20])
    with pytest.raises(InputError, match="must be a whole gzip file"):
        read_letor(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a file that exists"):
        read_letor(tmp_path / "none.txt")


def test_long_text_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [
        f"{rng.integers(5)} qid:{row // 50} "
        + " ".join(f"{i}:{rng.lognormal(0, 3):.17g}" for i in range(1, 21) if rng.random() < 0.8)
        for row in range(2000)
    ]
    text = "\n".join(lines).encode()
    path = tmp_path / "long.txt"
    path.write_bytes(text)
    for threads in (1, 4):
        with use_threads(threads):
            check(path, text)
