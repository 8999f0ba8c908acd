/* Loops over bytes that Python is too slow for. loops.py builds and loads them, avro_scan.py,
   row_hash_scan.py and storage/local/kernel.py say what each does and hand the arrays over.

   Nothing but the C library is used, so that one build serves every version of Python. Nothing in a
   file is trusted: every read is checked against the end of its block, every length and count
   against what is left. Callers vouch for the sizes of arrays alone. */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define LOOP __declspec(dllexport)
#else
#define LOOP __attribute__((visibility("default")))
#endif

typedef uint8_t u8;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

/* -- records of Avro ------------------------------------------------------------------------- */

enum { DAMAGED = -1, FULL = -2 };

enum {
    SKIP_NUMBER,
    SKIP_BYTES,
    SKIP_FIXED,
    SKIP_NUMBERS,
    SKIP_NUMBER_PAIRS,
    SKIP_BYTES_PAIRS,
    OPTIONAL,
    NUMBER,
    BYTES,
    SPAN_START,
    SPAN_END,
    NUMBERS,
    NUMBER_PAIRS,
    BYTES_PAIRS,
    ARRAY,
    ARRAY_END,
    RAW,
    POSITION
};

enum { STEP = 5, MAX_NESTING = 32, MAX_COLUMNS = 64, TOGETHER = 16 };

#define NOWHERE UINT64_MAX /* behind every end: where a damaged value ends */

typedef struct {
    i64 value;
    u64 at;
} number;

static inline number read_number(const u8 *buffer, u64 at, u64 end) {
    number read = {0, NOWHERE};
    u64 value = 0;
    for (unsigned shift = 0; at < end; shift += 7) {
        u64 byte = buffer[at++];
        if (shift == 63 && byte > 1) return read;
        value |= (byte & 127) << shift;
        if (byte < 128) {
            read.value = (i64)(value >> 1) ^ -(i64)(value & 1);
            read.at = at;
            return read;
        }
    }
    return read;
}

static inline u64 skip_number(const u8 *buffer, u64 at, u64 end) {
    /* Its length does not matter: what is stepped over is no value. */
    while (at < end)
        if (buffer[at++] < 128) return at;
    return NOWHERE;
}

static inline u64 skip_text(const u8 *buffer, u64 at, u64 end) {
    number length = read_number(buffer, at, end);
    if (length.at > end || length.value < 0 || (u64)length.value > end - length.at) return NOWHERE;
    return length.at + (u64)length.value;
}

typedef struct {
    i64 count;
    u64 at;   /* where the items start */
    u64 stop; /* where they must end, or NOWHERE */
} items_ahead;

/* The next block of an array; negative counts are followed by its size in bytes. */
static inline items_ahead item_count(const u8 *buffer, u64 at, u64 end) {
    items_ahead none = {0, NOWHERE, NOWHERE};
    number count = read_number(buffer, at, end);
    if (count.at > end) return none;
    if (count.value >= 0) {
        /* An item is one byte at least, so no count is larger than what is left. */
        items_ahead found = {count.value, count.at, NOWHERE};
        if ((u64)count.value > end - count.at) found.at = NOWHERE;
        return found;
    }
    number size = read_number(buffer, count.at, end);
    if (size.at > end || size.value < 0 || (u64)size.value > end - size.at) return none;
    if (count.value < -size.value) return none;
    items_ahead found = {-count.value, size.at, size.at + (u64)size.value};
    return found;
}

static u64 skip_items(const u8 *buffer, u64 at, u64 end, i64 op) {
    for (;;) {
        items_ahead ahead = item_count(buffer, at, end);
        at = ahead.at;
        if (at > end || ahead.count == 0) return at;
        if (op == SKIP_BYTES_PAIRS) {
            for (i64 item = 0; item < ahead.count; item++) {
                if (at + 1 < end && buffer[at] < 128 && !(buffer[at + 1] & 129))
                    at += 2 + (u64)(buffer[at + 1] >> 1);
                else
                    at = skip_text(buffer, skip_number(buffer, at, end), end);
                if (at > end) return NOWHERE;
            }
        } else {
            /* A number ends at its first byte below 128; many bytes are looked at together. */
            i64 numbers = op == SKIP_NUMBERS ? ahead.count : 2 * ahead.count;
            while (numbers >= TOGETHER && TOGETHER <= end - at) {
                i64 ended = 0;
                for (int byte = 0; byte < TOGETHER; byte++) ended += buffer[at + byte] < 128;
                numbers -= ended;
                at += TOGETHER;
            }
            while (numbers > 0) {
                if (at >= end) return NOWHERE;
                numbers -= buffer[at++] < 128;
            }
        }
        if (ahead.stop != NOWHERE && at != ahead.stop) return NOWHERE;
    }
}

LOOP i64 scan(
    const u8 *buffer,
    const i64 *blocks, i64 block_count, /* [block] end, records */
    const i64 *program, i64 steps,      /* [step] op, a, b, c, valid */
    i64 *state,                         /* position, block, records done in it */
    u8 *valid, i64 columns, i64 row_room,
    i64 *numbers,
    i32 *text_ends, i64 text_columns,
    i32 *list_ends, i64 list_columns,
    i32 *keys, i64 *items, i32 *item_ends, i64 item_room,
    u8 *texts, i64 text_room) {
    u64 at = (u64)state[0];
    i64 block = state[1], done = state[2], row = 0;
    i64 text_used[MAX_COLUMNS] = {0}, items_used[MAX_COLUMNS] = {0}, left[MAX_NESTING] = {0};
    for (; block < block_count; block++, done = 0, state[1] = block, state[2] = 0) {
        u64 end = (u64)blocks[2 * block];
        for (; done < blocks[2 * block + 1]; row++, done++, state[0] = (i64)at, state[2] = done) {
            if (row == row_room) return row;
            u64 span = at;
            int depth = 0;
            for (i64 column = 0; column < columns; column++) valid[column * row_room + row] = 0;
            for (i64 step = 0; step < steps;) {
                const i64 *now = program + STEP * step;
                i64 op = now[0];
                switch (op) {
                case OPTIONAL: {
                    if (at >= end) return DAMAGED;
                    u8 branch = buffer[at++];
                    if (branch > 2 || branch & 1) return DAMAGED;
                    step = branch >> 1 == now[1] ? now[2] : step + 1;
                    continue;
                }
                case NUMBER: {
                    number read = read_number(buffer, at, end);
                    at = read.at;
                    numbers[now[1] * row_room + row] = read.value;
                    valid[now[4] * row_room + row] = 1;
                    break;
                }
                case SKIP_NUMBER: at = skip_number(buffer, at, end); break;
                case SKIP_BYTES: at = skip_text(buffer, at, end); break;
                case SKIP_NUMBERS:
                case SKIP_NUMBER_PAIRS:
                case SKIP_BYTES_PAIRS: at = skip_items(buffer, at, end, op); break;
                case BYTES: {
                    number length = read_number(buffer, at, end);
                    at = length.at;
                    if (at > end || length.value < 0 || (u64)length.value > end - at)
                        return DAMAGED;
                    span = at;
                    at += (u64)length.value;
                } /* fall through */
                case SPAN_END: {
                    i64 length = (i64)(at - span), used = text_used[now[1]];
                    if (at > end) return DAMAGED;
                    if (length > text_room - used) return row ? row : FULL;
                    memcpy(texts + now[1] * text_room + used, buffer + span, (size_t)length);
                    text_used[now[1]] = used + length;
                    valid[now[4] * row_room + row] = 1;
                    break;
                }
                case SPAN_START: span = at; break;
                case POSITION:
                    numbers[now[1] * row_room + row] = (i64)at;
                    valid[now[4] * row_room + row] = 1;
                    break;
                case SKIP_FIXED:
                    if ((u64)now[1] > end - at) return DAMAGED;
                    at += (u64)now[1];
                    break;
                case ARRAY: {
                    items_ahead ahead = item_count(buffer, at, end);
                    at = ahead.at;
                    if (at > end || depth == MAX_NESTING) return DAMAGED;
                    if (ahead.count == 0) {
                        step = now[1];
                        continue;
                    }
                    left[depth++] = ahead.count;
                    break;
                }
                case ARRAY_END:
                    if (--left[depth - 1] > 0) {
                        step = now[1] + 1;
                    } else {
                        depth--;
                        step = now[1];
                    }
                    continue;
                default: {
                    i64 key = now[2] * item_room, value = now[3] * item_room;
                    i64 sink = text_columns + now[3];
                    for (;;) {
                        items_ahead ahead = item_count(buffer, at, end);
                        at = ahead.at;
                        if (at > end) return DAMAGED;
                        if (ahead.count == 0) break;
                        i64 place = items_used[now[1]];
                        if (ahead.count > item_room - place) return row ? row : FULL;
                        for (i64 item = place; item < place + ahead.count; item++) {
                            number read = read_number(buffer, at, end);
                            at = read.at;
                            if (at > end) return DAMAGED;
                            if (op == NUMBERS) {
                                items[value + item] = read.value;
                                continue;
                            }
                            if (read.value < INT32_MIN || read.value > INT32_MAX) return DAMAGED;
                            keys[key + item] = (i32)read.value;
                            read = read_number(buffer, at, end);
                            at = read.at;
                            if (at > end) return DAMAGED;
                            if (op == NUMBER_PAIRS) {
                                items[value + item] = read.value;
                                continue;
                            }
                            if (read.value < 0 || (u64)read.value > end - at) return DAMAGED;
                            i64 used = text_used[sink];
                            if (read.value > text_room - used) return row ? row : FULL;
                            memcpy(texts + sink * text_room + used, buffer + at,
                                   (size_t)read.value);
                            at += (u64)read.value;
                            text_used[sink] = used + read.value;
                            item_ends[value + item] = (i32)(used + read.value);
                        }
                        if (ahead.stop != NOWHERE && at != ahead.stop) return DAMAGED;
                        items_used[now[1]] = place + ahead.count;
                    }
                    valid[now[4] * row_room + row] = 1;
                }
                }
                if (at > end) return DAMAGED;
                step++;
            }
            for (i64 sink = 0; sink < text_columns; sink++)
                text_ends[sink * row_room + row] = (i32)text_used[sink];
            for (i64 target = 0; target < list_columns; target++)
                list_ends[target * row_room + row] = (i32)items_used[target];
        }
        if (at != end) return DAMAGED;
    }
    return row;
}

static inline i64 put_number(u8 *output, i64 at, i64 value) {
    u64 left = ((u64)value << 1) ^ (u64)(value >> 63);
    for (; left >= 128; left >>= 7) output[at++] = (u8)(left | 128);
    output[at++] = (u8)left;
    return at;
}

static inline i64 put_bytes(u8 *output, i64 at, const u8 *content, i64 length) {
    memcpy(output + at, content, (size_t)length);
    return at + length;
}

LOOP i64 encode(
    const i64 *program, i64 steps, /* [step] op, column, first key, first item, valid */
    const u8 *valid, const i64 *numbers, const i64 *text_offsets, const i64 *list_offsets,
    const i32 *keys, const i64 *items, const i64 *item_offsets, const u8 *texts,
    u8 *output, i64 *row_ends, i64 rows) {
    i64 at = 0;
    for (i64 row = 0; row < rows; row++) {
        for (i64 step = 0; step < steps; step++) {
            const i64 *now = program + STEP * step;
            i64 op = now[0], column = now[1];
            if (now[4] >= 0) {
                u8 present = valid[now[4] * rows + row];
                output[at++] = present ? 2 : 0;
                if (!present) continue;
            }
            if (op == NUMBER) {
                at = put_number(output, at, numbers[column * rows + row]);
            } else if (op == BYTES || op == RAW) {
                const i64 *offsets = text_offsets + column * (rows + 1) + row;
                i64 length = offsets[1] - offsets[0];
                if (op == BYTES) at = put_number(output, at, length);
                at = put_bytes(output, at, texts + offsets[0], length);
            } else {
                const i64 *offsets = list_offsets + column * (rows + 1) + row;
                if (offsets[1] > offsets[0]) at = put_number(output, at, offsets[1] - offsets[0]);
                for (i64 item = offsets[0]; item < offsets[1]; item++) {
                    i64 value = now[3] + item;
                    if (op != NUMBERS) at = put_number(output, at, keys[now[2] + item]);
                    if (op != BYTES_PAIRS) {
                        at = put_number(output, at, items[value]);
                        continue;
                    }
                    i64 length = item_offsets[value + 1] - item_offsets[value];
                    at = put_number(output, at, length);
                    at = put_bytes(output, at, texts + item_offsets[value], length);
                }
                output[at++] = 0;
            }
        }
        row_ends[row] = at;
    }
    return at;
}

LOOP i64 splice(
    const u8 *buffer,
    const i64 *program, i64 steps, /* [step] NUMBER, column, null branch | RAW, first, last */
    const i64 *spans, const i64 *numbers, const u8 *valid,
    u8 *output, i64 *row_ends, i64 rows) {
    i64 at = 0;
    for (i64 row = 0; row < rows; row++) {
        for (i64 step = 0; step < steps; step++) {
            const i64 *now = program + 3 * step;
            i64 place = now[1] * rows + row;
            if (now[0] == RAW) {
                i64 start = spans[place];
                at = put_bytes(output, at, buffer + start, spans[now[2] * rows + row] - start);
                continue;
            }
            if (now[2] >= 0) {
                u8 present = valid[place];
                output[at++] = (u8)(2 * (present ? 1 - now[2] : now[2]));
                if (!present) continue;
            }
            at = put_number(output, at, numbers[place]);
        }
        row_ends[row] = at;
    }
    return at;
}

/* -- members of Thrift's compact structs: footers, indexes and page headers of Parquet ---------- */

enum { TRUE_ = 1, FALSE_, OCTET, SHORT, INTEGER, LONG, REAL, BINARY, LIST_, SET_, MAP_, STRUCT_, UUID_ };
enum { WANTED = 3, FOUND = 4, MAX_DEPTH = 32, PAGE = 6, PAGE_MEMBERS = 8 };

typedef struct {
    const u8 *content;
    u64 end;
    const i64 *wanted; /* [node - 1] parent, field id (0: elements, below 0: this and above), kind */
    i64 wanted_count;
    i64 *found; /* [row] node, first byte, end, value */
    i64 room, rows;
    int is_full;
} members;

/* Lengths and counts are numbers without a sign. */
static inline number read_count(const members *all, u64 at) {
    number doubled = {0, NOWHERE};
    u64 value = 0;
    for (unsigned shift = 0; at < all->end && shift < 35; shift += 7) {
        u64 byte = all->content[at++];
        value |= (byte & 127) << shift;
        if (byte < 128) {
            if (value > all->end - at) break;
            doubled.value = (i64)value;
            doubled.at = at;
            break;
        }
    }
    return doubled;
}

static i64 node_of(const members *all, i64 parent, i64 field) {
    if (parent < 0) return -1;
    for (i64 place = 0; place < all->wanted_count; place++) {
        const i64 *one = all->wanted + WANTED * place;
        if (one[0] == parent && (one[1] == field || (one[1] < 0 && field >= -one[1])))
            return place + 1;
    }
    return -1;
}

static u64 read_value(members *all, u64 at, int kind, i64 node, int in_list, int depth);

static u64 read_elements(members *all, u64 at, i64 node, int depth, i64 *size) {
    if (at >= all->end) return NOWHERE;
    int kind = all->content[at] & 15;
    number count = {all->content[at] >> 4, at + 1};
    if (count.value == 15) count = read_count(all, at + 1);
    if (count.at > all->end || (u64)count.value > all->end - count.at) return NOWHERE;
    *size = count.value;
    i64 below = node_of(all, node, 0);
    at = count.at;
    for (i64 item = 0; item < count.value && at <= all->end; item++)
        at = read_value(all, at, kind, below, 1, depth);
    return at;
}

static u64 read_pairs(members *all, u64 at, int depth) {
    number count = read_count(all, at);
    if (count.at > all->end || count.value == 0) return count.at;
    if (count.at >= all->end) return NOWHERE;
    int key = all->content[count.at] >> 4, kind = all->content[count.at] & 15;
    at = count.at + 1;
    for (i64 item = 0; item < count.value && at <= all->end; item++) {
        at = read_value(all, at, key, -1, 1, depth);
        if (at <= all->end) at = read_value(all, at, kind, -1, 1, depth);
    }
    return at;
}

static u64 read_struct(members *all, u64 at, i64 node, int depth) {
    i64 field = 0;
    while (at < all->end) {
        int head = all->content[at++], kind = head & 15;
        if (!head) return at;
        i64 last = field;
        if (head >> 4) {
            field += head >> 4;
        } else {
            number read = read_number(all->content, at, all->end);
            if (read.at > all->end) return NOWHERE;
            field = read.value;
            at = read.at;
        }
        /* A member that comes twice means one thing to one reader, and another to the next. */
        if (field <= last || field > 32767) return NOWHERE;
        at = read_value(all, at, kind, node_of(all, node, field), 0, depth);
    }
    return NOWHERE;
}

static u64 read_value(members *all, u64 at, int kind, i64 node, int in_list, int depth) {
    u64 start = at;
    i64 value = 0, row = -1;
    if (depth >= MAX_DEPTH || at > all->end) return NOWHERE;
    if (node >= 0) {
        i64 kinds = all->wanted[WANTED * (node - 1) + 2];
        if (kinds && !(kinds >> kind & 1)) return NOWHERE;
        if (all->rows == all->room) {
            all->is_full = 1;
            return NOWHERE;
        }
        row = all->rows++;
    }
    switch (kind) {
    case TRUE_:
    case FALSE_: value = kind == TRUE_; at += in_list; break;
    case OCTET: at += 1; break;
    case SHORT:
    case INTEGER:
    case LONG: {
        number read = read_number(all->content, at, all->end);
        value = read.value;
        at = read.at;
        break;
    }
    case REAL: at += 8; break;
    case UUID_: at += 16; break;
    case BINARY: {
        number length = read_count(all, at);
        if (length.at > all->end) return NOWHERE;
        value = length.value;
        at = length.at + (u64)length.value;
        break;
    }
    case LIST_:
    case SET_: at = read_elements(all, at, node, depth + 1, &value); break;
    case MAP_: at = read_pairs(all, at, depth + 1); break;
    case STRUCT_: at = read_struct(all, at, node, depth + 1); break;
    default: return NOWHERE;
    }
    if (at > all->end) return NOWHERE;
    if (row >= 0) {
        i64 *found = all->found + FOUND * row;
        found[0] = node;
        found[1] = (i64)start;
        found[2] = (i64)at;
        found[3] = value;
    }
    return at;
}

static i64 find_in(members *all, u64 at, u64 *end) {
    all->rows = 0;
    all->is_full = 0;
    *end = read_struct(all, at, 0, 0);
    if (all->is_full) return FULL;
    return *end > all->end ? DAMAGED : all->rows;
}

LOOP i64 find_members(
    const u8 *content, i64 size, i64 at, const i64 *wanted, i64 wanted_count,
    i64 *found, i64 room, i64 *end) {
    members all = {content, (u64)size, wanted, wanted_count, found, room, 0, 0};
    u64 stop;
    i64 rows = find_in(&all, (u64)at, &stop);
    *end = rows < 0 ? -1 : (i64)stop;
    return rows;
}

LOOP i64 replace_numbers(
    const u8 *content, i64 at, i64 end, const i64 *spans, const i64 *values, i64 count,
    u8 *output) {
    i64 made = 0;
    for (i64 place = 0; place < count; place++) {
        made = put_bytes(output, made, content + at, spans[2 * place] - at);
        made = put_number(output, made, values[place]);
        at = spans[2 * place + 1];
    }
    return put_bytes(output, made, content + at, end - at);
}

/* The pages that begin in some bytes of a column chunk: as many as there is room for, up to one whose
   header does not end there. */
LOOP i64 find_pages(
    const u8 *content, i64 size, i64 at, i64 *pages, /* [page] start, body, length, kind, values, crc */
    i64 room) {
    static const i64 numbers = 1 << INTEGER, structs = 1 << STRUCT_;
    const i64 wanted[PAGE_MEMBERS * WANTED] = {
        0, 1, numbers, 0, 3, numbers, 0, 4, numbers, 0, 5, structs, 4, 1, numbers,
        0, 8, structs, 6, 1, numbers, 0, 7, structs};
    i64 found[PAGE_MEMBERS * FOUND], count = 0;
    while (count < room && at < size) {
        members all = {content, (u64)size, wanted, PAGE_MEMBERS, found, PAGE_MEMBERS, 0, 0};
        u64 body;
        i64 rows = find_in(&all, (u64)at, &body), *page = pages + PAGE * count;
        if (rows < 0) break;
        page[0] = at;
        page[1] = (i64)body;
        page[2] = page[3] = page[4] = page[5] = -1;
        for (i64 row = 0; row < rows; row++) {
            i64 node = found[FOUND * row], value = found[FOUND * row + 3];
            if (node == 1) page[3] = value;
            if (node == 2) page[2] = value;
            if (node == 3) page[5] = value & INT64_C(0xFFFFFFFF);
            if (node == 5 || node == 7) page[4] = value;
        }
        count++;
        if (page[2] < 0 || page[2] > INT32_MAX) break;
        at = page[1] + page[2];
    }
    return count;
}

/* Which hashes the blocks of a Bloom filter may have: a bit in each of the eight words of one. */
LOOP void in_blocks(const u8 *blocks, i64 count, const u64 *hashes, i64 hash_count, u8 *may_have) {
    static const uint32_t salts[8] = {0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
                                      0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31};
    for (i64 at = 0; at < hash_count; at++) {
        const u8 *block = blocks + 32 * (((hashes[at] >> 32) * (u64)count) >> 32);
        int has = 1;
        for (int word = 0; word < 8 && has; word++) {
            uint32_t bit = ((uint32_t)hashes[at] * salts[word]) >> 27;
            has = block[4 * word + (bit >> 3)] >> (bit & 7) & 1;
        }
        may_have[at] = (u8)has;
    }
}

/* -- hashes of rows -------------------------------------------------------------------------- */

enum { PLAIN, SINGLE, DOUBLE };

#define NULL_BITS UINT64_C(0x9E3779B97F4A7C15)
#define HASH_STEP UINT64_C(0xD6E8FEB86659FD93)

/* A number that depends on every bit of the value. */
static inline u64 mixed(u64 value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

static inline int is_null(const u8 *valid, i64 place) {
    return valid && !((valid[place >> 3] >> (place & 7)) & 1);
}

static inline u64 one_nan(u64 value, i64 kind) {
    const u64 nan = UINT64_C(0x7FF8000000000000);
    if (kind == SINGLE && (value & 0x7FFFFFFF) > 0x7F800000) return nan;
    if (kind == DOUBLE && (value & INT64_MAX) > UINT64_C(0x7FF0000000000000)) return nan;
    return value;
}

static inline u64 word(const u8 *content) { /* little-endian on every machine */
    u64 value = 0;
    for (int byte = 0; byte < 8; byte++) value |= (u64)content[byte] << (8 * byte);
    return value;
}

static inline u64 hash_bytes(const u8 *content, i64 length, u64 seed) {
    u64 state = seed ^ ((u64)length * HASH_STEP);
    if (length < 8) {
        u64 last = 0;
        for (i64 at = 0; at < length; at++) last = (last << 8) | content[at];
        return mixed(state ^ last);
    }
    for (i64 at = 0; at < length - 8; at += 8) {
        state = (state ^ word(content + at)) * HASH_STEP;
        state ^= state >> 32;
    }
    return mixed(state ^ word(content + length - 8));
}

#define ADD_ROWS(VALUE)                                     \
    u64 null = mixed(seed ^ NULL_BITS);                     \
    for (i64 row = 0; row < rows; row++)                    \
        hashes[row] += is_null(valid, first + row) ? null : (VALUE)

LOOP void add_32(u64 *hashes, i64 rows, const uint32_t *values, i64 kind, const u8 *valid,
                 i64 first, u64 seed) {
    ADD_ROWS(mixed(one_nan(values[row], kind) ^ seed));
}

LOOP void add_64(u64 *hashes, i64 rows, const u64 *values, i64 kind, const u8 *valid, i64 first,
                 u64 seed) {
    ADD_ROWS(mixed(one_nan(values[row], kind) ^ seed));
}

LOOP void add_bits(u64 *hashes, i64 rows, const u8 *values, const u8 *valid, i64 first, u64 seed) {
    ADD_ROWS(mixed(((values[(first + row) >> 3] >> ((first + row) & 7)) & 1) ^ seed));
}

LOOP void add_fixed(u64 *hashes, i64 rows, const u8 *content, i64 width, const u8 *valid, i64 first,
                    u64 seed) {
    ADD_ROWS(hash_bytes(content + row * width, width, seed));
}

LOOP void add_bytes(u64 *hashes, i64 rows, const u8 *content, const i64 *offsets, const u8 *valid,
                    i64 first, u64 seed) {
    ADD_ROWS(hash_bytes(content + offsets[row], offsets[row + 1] - offsets[row], seed));
}

static inline u64 hash_list(const u64 *elements, i64 count, u64 seed) {
    u64 state = seed ^ ((u64)count * HASH_STEP);
    for (i64 place = 0; place < count; place++) state = mixed(state ^ elements[place]);
    return state;
}

LOOP void add_lists(u64 *hashes, i64 rows, const u64 *elements, const i64 *offsets, const u8 *valid,
                    i64 first, u64 seed) {
    ADD_ROWS(hash_list(elements + offsets[row], offsets[row + 1] - offsets[row], seed));
}

LOOP u64 total(const u64 *hashes, i64 rows) {
    u64 found = 0;
    for (i64 row = 0; row < rows; row++) found += mixed(hashes[row]);
    return found;
}

/* -- places of keys in their order ----------------------------------------------------------- */

enum { FEW = 48, DEEPEST = 48, BYTE = 256, ENDED = 8 };

/* Keys by place, the places in the order so far, and eight bytes of each key as a number. */
typedef struct {
    const u8 *content;
    const i64 *offsets;
    i32 *places, *other_places;
    u64 *words, *other_words;
} keys;

static inline i64 left_of(const keys *all, i32 place, i64 depth) {
    return all->offsets[place + 1] - all->offsets[place] - depth;
}

/* The next bytes of a key, the first of them the highest; zeros behind its end. */
static inline u64 next_word(const keys *all, i32 place, i64 depth) {
    i64 left = left_of(all, place, depth);
    const u8 *from = all->content + all->offsets[place] + depth;
    u64 value = 0;
    for (i64 byte = 0; byte < 8; byte++) value = value << 8 | (byte < left ? from[byte] : 0);
    return value;
}

static inline int is_before(const keys *all, i32 one, i32 other, i64 depth) {
    i64 left = left_of(all, one, depth), right = left_of(all, other, depth);
    const u8 *first = all->content + all->offsets[one] + depth;
    const u8 *second = all->content + all->offsets[other] + depth;
    int order = memcmp(first, second, (size_t)(left < right ? left : right));
    return order < 0 || (order == 0 && left < right);
}

/* Sort few places, or those of keys that have much in common, by comparing. */
static void merge_places(keys *all, i64 low, i64 high, i64 depth) {
    for (i64 width = 1; width < high - low; width *= 2) {
        for (i64 start = low; start < high; start += 2 * width) {
            i64 middle = start + width < high ? start + width : high;
            i64 end = middle + width < high ? middle + width : high;
            i64 one = start, other = middle;
            for (i64 at = start; at < end; at++) {
                int takes_other = other < end && (one == middle ||
                    is_before(all, all->places[other], all->places[one], depth));
                all->other_places[at] = all->places[takes_other ? other++ : one++];
            }
        }
        memcpy(all->places + low, all->other_places + low, (size_t)(high - low) * sizeof(i32));
    }
}

/* Sort places by their words, of which `varied` has the bits that are not the same in all. */
static void sort_by_words(keys *all, i64 low, i64 high, u64 varied) {
    i32 *places = all->places, *other_places = all->other_places;
    u64 *words = all->words, *other_words = all->other_words;
    for (int shift = 0; shift < 64; shift += 8) {
        if (!((varied >> shift) & (BYTE - 1))) continue;
        i64 next[BYTE] = {0}, sum = low;
        for (i64 at = low; at < high; at++) next[(words[at] >> shift) & (BYTE - 1)]++;
        for (int byte = 0; byte < BYTE; byte++) {
            i64 count = next[byte];
            next[byte] = sum;
            sum += count;
        }
        for (i64 at = low; at < high; at++) {
            i64 to = next[(words[at] >> shift) & (BYTE - 1)]++;
            other_places[to] = places[at];
            other_words[to] = words[at];
        }
        i32 *of_places = places;
        u64 *of_words = words;
        places = other_places, other_places = of_places;
        words = other_words, other_words = of_words;
    }
    if (places == all->places) return;
    memcpy(all->places + low, places + low, (size_t)(high - low) * sizeof(i32));
    memcpy(all->words + low, words + low, (size_t)(high - low) * sizeof(u64));
}

static void sort_places(keys *all, i64 low, i64 high, i64 depth, int level);

/* Sort places whose keys have the same eight bytes, or end there. */
static void sort_equal(keys *all, i64 low, i64 high, i64 depth, int level) {
    u64 varied = 0;
    for (i64 at = low; at < high; at++) {
        i64 left = left_of(all, all->places[at], depth);
        all->words[at] = (u64)(left < 0 ? 0 : left > ENDED ? ENDED + 1 : left);
        varied |= all->words[at] ^ all->words[low];
    }
    if (varied) sort_by_words(all, low, high, varied);
    while (low < high && all->words[low] <= ENDED) low++;
    sort_places(all, low, high, depth + 8, level + 1);
}

static void sort_places(keys *all, i64 low, i64 high, i64 depth, int level) {
    u64 varied = 0;
    i64 same = 0; /* bytes that are the same in all keys */
    for (int has_ended = 0; !has_ended && (!varied || same); depth += same) {
        if (high - low < FEW || level >= DEEPEST) {
            merge_places(all, low, high, depth);
            return;
        }
        varied = 0;
        for (i64 at = low; at < high; at++) {
            all->words[at] = next_word(all, all->places[at], depth);
            varied |= all->words[at] ^ all->words[low];
            has_ended |= left_of(all, all->places[at], depth) <= 8;
        }
        for (same = 0; same < 8 && !has_ended && !(varied >> (56 - 8 * same)); same++) continue;
    }
    if (varied) sort_by_words(all, low, high, varied);
    while (low < high) {
        i64 end = low + 1;
        while (end < high && all->words[end] == all->words[low]) end++;
        if (end - low > 1) sort_equal(all, low, end, depth, level);
        low = end;
    }
}

/* The places of keys in the order of their bytes, which equal keys keep; the other arrays have room
   for as many. */
LOOP void sort_keys(const u8 *content, const i64 *offsets, i64 count, i32 *places,
                    i32 *other_places, u64 *words, u64 *other_words) {
    keys all = {content, offsets, places, other_places, words, other_words};
    for (i64 at = 0; at < count; at++) places[at] = (i32)at;
    sort_places(&all, 0, count, 0, 0);
}

/* -- rows of several arrays in another order --------------------------------------------------- */

/* Values of one array: row `place` of all arrays, counted through, is its row `place + shift`. */
typedef struct { const u8 *values; i64 shift; } chunk;

enum { AHEAD = 16, FEW_BYTES = 16, MORE_BYTES = 32 };

static inline const u8 *value_at(const chunk *chunks, i32 number, i64 place, i64 width) {
    return chunks[number].values + (place + chunks[number].shift) * width;
}

LOOP void take_fixed(const chunk *chunks, const i32 *numbers, const i32 *places, i64 count,
                     i64 width, u8 *to) {
#define TAKE(WIDTH) \
    for (i64 at = 0; at < count; at++) \
        memcpy(to + at * (WIDTH), value_at(chunks, numbers[at], places[at], WIDTH), (size_t)(WIDTH))
    switch (width) {
    case 4: TAKE(4); break;
    case 8: TAKE(8); break;
    case 16: TAKE(16); break;
    default: TAKE(width);
    }
}

/* Bits, all of them set in a chunk without values. `to` has zeros. */
LOOP void take_bits(const chunk *chunks, const i32 *numbers, const i32 *places, i64 count, u8 *to) {
    for (i64 at = 0; at < count; at++) {
        const chunk *from = chunks + numbers[at];
        if (!is_null(from->values, places[at] + from->shift)) to[at >> 3] |= (u8)(1 << (at & 7));
    }
}

static inline i64 offset_at(const u8 *offset, i64 width) {
    if (width == 8) return *(const i64 *)offset;
    return *(const i32 *)offset;
}

/* Where each byte string starts, by the offsets of its chunk, and in `ends` where it ends in the
   new order. */
LOOP void take_spans(const chunk *chunks, const i32 *numbers, const i32 *places, i64 count,
                     i64 width, i64 *starts, i64 *ends) {
    ends[0] = 0;
    for (i64 at = 0; at < count; at++) {
        const u8 *offset = value_at(chunks, numbers[at], places[at], width);
        starts[at] = offset_at(offset, width);
        ends[at + 1] = ends[at] + offset_at(offset + width, width) - starts[at];
    }
}

/* Copy byte strings out of contents of `size` bytes each; `to` has room for MORE_BYTES bytes more. */
LOOP void take_bytes(const u8 *const *contents, const i64 *sizes, const i32 *numbers, i64 count,
                     const i64 *starts, const i64 *ends, u8 *to) {
    for (i64 at = 0; at < count; at++) {
#if defined(__GNUC__)
        if (at + AHEAD < count)
            __builtin_prefetch(contents[numbers[at + AHEAD]] + starts[at + AHEAD]);
#endif
        const u8 *from = contents[numbers[at]] + starts[at];
        i64 length = ends[at + 1] - ends[at], left = sizes[numbers[at]] - starts[at];
        u8 *next = to + ends[at];
        /* Copies of a length known here take a fraction of the time of others. */
        if (length <= FEW_BYTES && left >= FEW_BYTES) memcpy(next, from, FEW_BYTES);
        else if (length <= MORE_BYTES && left >= MORE_BYTES) memcpy(next, from, MORE_BYTES);
        else memcpy(next, from, (size_t)length);
    }
}

/* -- hashes of values for sketches ------------------------------------------------------------ */

static inline u64 rotated(u64 value, int bits) { return (value << bits) | (value >> (64 - bits)); }

#define MURMUR_1 UINT64_C(0x87C37B91114253D5)
#define MURMUR_2 UINT64_C(0x4CF5AD432745937F)

static inline u64 final_mix(u64 value) {
    value = (value ^ (value >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    value = (value ^ (value >> 33)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return value ^ (value >> 33);
}

/* The first half of MurmurHash3_x64_128. */
static inline u64 murmur(const u8 *content, i64 length, u64 seed) {
    u64 first = seed, second = seed;
    i64 at = 0;
    for (; at + 16 <= length; at += 16) {
        first ^= rotated(word(content + at) * MURMUR_1, 31) * MURMUR_2;
        first = (rotated(first, 27) + second) * 5 + 0x52DCE729;
        second ^= rotated(word(content + at + 8) * MURMUR_2, 33) * MURMUR_1;
        second = (rotated(second, 31) + first) * 5 + 0x38495AB5;
    }
    u64 rest[2] = {0, 0};
    for (i64 byte = 0; at + byte < length; byte++)
        rest[byte >> 3] |= (u64)content[at + byte] << (8 * (byte & 7));
    second ^= rotated(rest[1] * MURMUR_2, 33) * MURMUR_1;
    first ^= rotated(rest[0] * MURMUR_1, 31) * MURMUR_2;
    first ^= (u64)length;
    second ^= (u64)length;
    first += second;
    second += first;
    return final_mix(first) + final_mix(second);
}

/* The upper 63 bits of each value's hash, if below theta; no hash is 0. Returns their number. */
LOOP i64 sketch(u64 *hashes, const u8 *content, const i64 *starts, const i64 *ends, i64 rows,
                u64 seed, u64 theta) {
    i64 count = 0;
    for (i64 row = 0; row < rows; row++) {
        if (starts[row] == ends[row]) continue;
        u64 hash = murmur(content + starts[row], ends[row] - starts[row], seed) >> 1;
        hashes[count] = hash;
        count += hash && hash < theta;
    }
    return count;
}

/* -- directories of this machine -------------------------------------------------------------- */

#if defined(__linux__)

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DIRECTORY = -1, OTHER = -2, MORE = 1, ENTRY_BYTES = 1 << 15, ENTRY_ROWS = (1 << 15) / 24 };
enum { SIZE_AND_TIME = 0x240 };

/* Kinds of entries of getdents64(2): pipe, character and block device, file, socket. */
static inline int is_file(u8 kind) {
    return kind == 1 || kind == 2 || kind == 6 || kind == 8 || kind == 12;
}

LOOP i64 read_entries(int directory, const u8 *prefix, i64 prefix_length, u8 *names, i64 name_room,
                      i32 *ends, i64 *sizes, i64 *times, i64 row_room, i64 *found) {
    u64 room[ENTRY_BYTES / 8], status_words[32];
    u8 *entries = (u8 *)room, *status = (u8 *)status_words;
    i64 count = 0, end = 0;
    ends[0] = 0;
    while (row_room - count >= ENTRY_ROWS &&
           name_room - end >= ENTRY_BYTES + ENTRY_ROWS * prefix_length) {
        long size = syscall(SYS_getdents64, directory, entries, (long)ENTRY_BYTES);
        if (size <= 0) {
            *found = count;
            return size == 0 ? 0 : -errno;
        }
        for (long entry = 0; entry < size;) {
            const u8 *name = entries + entry + 19;
            u8 kind = entries[entry + 18];
            uint16_t length;
            memcpy(&length, entries + entry + 16, 2);
            entry += length;
            if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]))) continue;
            sizes[count] = kind == 4 ? DIRECTORY : OTHER;
            if (is_file(kind) &&
                !syscall(SYS_statx, directory, name, 0, SIZE_AND_TIME, status)) {
                uint32_t mask, nanoseconds;
                i64 bytes, seconds;
                memcpy(&mask, status, 4);
                memcpy(&bytes, status + 40, 8);
                memcpy(&seconds, status + 112, 8);
                memcpy(&nanoseconds, status + 120, 4);
                if ((mask & SIZE_AND_TIME) == SIZE_AND_TIME) {
                    sizes[count] = bytes;
                    times[count] = seconds * 1000 + nanoseconds / 1000000;
                }
            }
            i64 name_length = (i64)strlen((const char *)name);
            memcpy(names + end, prefix, (size_t)prefix_length);
            memcpy(names + end + prefix_length, name, (size_t)name_length);
            end += prefix_length + name_length;
            ends[++count] = (i32)end;
        }
    }
    *found = count;
    return MORE;
}

#endif
