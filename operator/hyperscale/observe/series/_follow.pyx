"""Compiled walk along an answer of Prometheus whose series are mostly those of last time, in the order of last time.

It reads label sets that are bytes objects of Python, and so holds the interpreter: a piece of 128 KiB takes some 50 microseconds.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcmp

cdef double[23] TENS
cdef Py_ssize_t _power
for _power in range(23):
    TENS[_power] = float(10**_power)

cdef uint64_t EXACT = <uint64_t> 1 << 53
cdef const char *OPENING = b'{"metric":'
cdef const char *NAME = b'"__name__":"'
cdef const char *VALUE = b',"value":['
cdef const char *ENDING = b'"]},{"metric":{'
cdef Py_ssize_t OPENING_BYTES = 10
cdef Py_ssize_t NAME_BYTES = 12
cdef Py_ssize_t VALUE_BYTES = 10
cdef Py_ssize_t ENDING_BYTES = 15
cdef Py_ssize_t NEXT_BYTES = 4
"""Of the ending: what closes an entry, with the comma behind it."""


cdef inline Py_ssize_t _same(const unsigned char *text, Py_ssize_t left, const char *wanted, Py_ssize_t size) noexcept nogil:
    """`size` where the text begins with `wanted`, else -1."""
    return size if size <= left and memcmp(text, wanted, size) == 0 else -1


cdef Py_ssize_t _name(const unsigned char *text, Py_ssize_t left) noexcept nogil:
    """Length of the label `__name__` at the head of the text, with the comma that parts it from others; 0 where there is none."""
    cdef Py_ssize_t at = 1 if left > 0 and text[0] == b"," else 0
    cdef bint after_others = at == 1
    if _same(text + at, left - at, NAME, NAME_BYTES) < 0:
        return 0
    at += NAME_BYTES
    while at < left and text[at] != b'"':
        if text[at] == b"\\":
            return 0
        at += 1
    if at + 1 >= left:
        return 0
    return at + 2 if text[at + 1] == b"," and not after_others else at + 1


cdef Py_ssize_t _label_set(const unsigned char *text, Py_ssize_t left, const char *wanted, Py_ssize_t size, Py_ssize_t cut) noexcept nogil:
    """Length of the label set at the head of the text where it is the wanted one, the metric's name at `cut` aside; -1 where it is not."""
    cdef Py_ssize_t name
    if cut < 0 or cut > size:
        return _same(text, left, wanted, size)
    if _same(text, left, wanted, cut) < 0:
        return -1
    name = _name(text + cut, left - cut)
    if _same(text + cut + name, left - cut - name, wanted + cut, size - cut) < 0:
        return -1
    return size + name


cdef Py_ssize_t _number(const unsigned char *text, Py_ssize_t left, double *value) noexcept nogil:
    """Length of the decimal number that ends at a quotation mark; -1 where it is none, or has more digits than are exact in one division."""
    cdef Py_ssize_t at = 0, digits = 0
    cdef uint64_t mantissa = 0
    cdef int places = 0, exponent = 0
    cdef bint negative = False, point = False, down = False
    if left > 0 and text[0] == b"-":
        negative = True
        at = 1
    while at < left and digits < 19 and ((text[at] >= b"0" and text[at] <= b"9") or (text[at] == b"." and not point)):
        if text[at] == b".":
            point = True
        else:
            mantissa = mantissa * 10 + <uint64_t> (<int> text[at] - 48)
            places += point
            digits += 1
        at += 1
    if digits == 0 or mantissa > EXACT:
        return -1
    if at + 2 < left and text[at] == b"e" and (text[at + 1] == b"-" or text[at + 1] == b"+"):
        down = text[at + 1] == b"-"
        at += 2
        digits = 0
        while at < left and digits < 3 and text[at] >= b"0" and text[at] <= b"9":
            exponent = exponent * 10 + (<int> text[at] - 48)
            digits += 1
            at += 1
        if digits == 0:
            return -1
    exponent = (-exponent if down else exponent) - places
    if at >= left or text[at] != b'"' or exponent > 22 or exponent < -22:
        return -1
    value[0] = <double> mantissa * TENS[exponent] if exponent >= 0 else <double> mantissa / TENS[-exponent]
    if negative:
        value[0] = -value[0]
    return at


cdef Py_ssize_t _entry(
    const unsigned char *text, Py_ssize_t left, const char *wanted, Py_ssize_t size, Py_ssize_t cut, const char *stamp, Py_ssize_t stamp_bytes,
    double *value,
) noexcept nogil:
    """Length of the entry at the head of the text, with the comma behind it, where it is the wanted one and another follows; else -1."""
    cdef Py_ssize_t at = _same(text, left, OPENING, OPENING_BYTES), more
    if at < 0:
        return -1
    more = _label_set(text + at, left - at, wanted, size, cut)
    if more < 0:
        return -1
    at += more
    if _same(text + at, left - at, VALUE, VALUE_BYTES) < 0:
        return -1
    at += VALUE_BYTES
    if _same(text + at, left - at, stamp, stamp_bytes) < 0:
        return -1
    at += stamp_bytes
    more = _number(text + at, left - at, value)
    if more < 0:
        return -1
    at += more
    return at + NEXT_BYTES if _same(text + at, left - at, ENDING, ENDING_BYTES) >= 0 else -1


def follow(const unsigned char[::1] body, Py_ssize_t start, tuple identities, const int32_t[::1] cuts, Py_ssize_t row, bytes stamp, double[::1] values):
    """Values of the entries from body[start:] that are the expected ones from `row` on, in order; see vector.follow."""
    cdef Py_ssize_t expected = PyTuple_GET_SIZE(identities), length = body.shape[0], at = start, found = 0, used
    cdef const char *text = PyBytes_AS_STRING(stamp)
    cdef Py_ssize_t text_bytes = PyBytes_GET_SIZE(stamp)
    cdef double value = 0.0
    if not (0 <= start <= length and 0 <= row and expected == cuts.shape[0]):
        raise ValueError("rows and label sets do not fit")
    while row + found < expected and found < values.shape[0] and at < length:
        identity = <object> PyTuple_GET_ITEM(identities, row + found)
        if not isinstance(identity, bytes):
            raise TypeError("a label set is bytes")
        used = _entry(
            &body[at], length - at, PyBytes_AS_STRING(identity), PyBytes_GET_SIZE(identity), cuts[row + found], text, text_bytes, &value
        )
        if used < 0:
            break
        values[found] = value
        found += 1
        at += used
    return at, found
