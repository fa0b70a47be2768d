// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
//
// Gives a datagram to the shard that owns its Call-ID, before the kernel queues it.
//
// Computes what `Steering::owner` computes (crates/net/src/steer.rs): SipHash-1-3 of the Call-ID's length and bytes.
// Where it finds no Call-ID (none in the first WINDOW bytes, or one longer than ID_MAX) it chooses nothing: the kernel
// spreads by address, and the shard that receives the message hands it over.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define WINDOW 2048 /* bytes of the payload that are searched; a power of two */
#define ID_MAX 128  /* longest Call-ID, in bytes */
#define UDP_HEADER 8
#define SHARDS_MAX 1024

volatile const __u64 key0 = 0;
volatile const __u64 key1 = 0;
volatile const __u32 shards = 1;

struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, SHARDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* What is searched, with room behind it so that no check need look at the end of the window. */
struct window {
	__u8 bytes[WINDOW + 2 * ID_MAX];
	__u32 place;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

static __always_inline int is_blank(__u8 byte)
{
	return byte == ' ' || byte == '\t';
}

static __always_inline int is_space(__u8 byte)
{
	return is_blank(byte) || byte == '\r' || byte == '\n';
}

/*
 * A place in the window that the verifier knows nothing of but its bounds. It follows every path on its own as long as
 * places differ; from here on, all of them are one.
 */
static __always_inline __u32 forget(struct window *window, __u32 place)
{
	*(volatile __u32 *)&window->place = place;
	return *(volatile __u32 *)&window->place & (WINDOW - 1);
}

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (64 - (n))))
#define ROUND                                                                                                          \
	do {                                                                                                           \
		v0 += v1, v1 = ROTATE(v1, 13), v1 ^= v0, v0 = ROTATE(v0, 32);                                          \
		v2 += v3, v3 = ROTATE(v3, 16), v3 ^= v2;                                                               \
		v0 += v3, v3 = ROTATE(v3, 21), v3 ^= v0;                                                               \
		v2 += v1, v1 = ROTATE(v1, 17), v1 ^= v2, v2 = ROTATE(v2, 32);                                          \
	} while (0)

/* SipHash-1-3 of the length as 8 bytes and then the bytes, as `HashKey::hash64` of one part. */
static __always_inline __u64 hash(const struct window *window, __u32 start, __u32 length)
{
	__u64 v0 = key0 ^ 0x736f6d6570736575ULL, v1 = key1 ^ 0x646f72616e646f6dULL;
	__u64 v2 = key0 ^ 0x6c7967656e657261ULL, v3 = key1 ^ 0x7465646279746573ULL;
	__u64 word = length;

	v3 ^= word;
	ROUND;
	v0 ^= word;
	for (__u32 index = 0; index <= ID_MAX / 8; index++) {
		__u32 at = (start + index * 8) & (WINDOW - 1);
		__u32 left = length - index * 8; /* up to ID_MAX here; below 8 in the last word */

		word = 0;
		__builtin_memcpy(&word, window->bytes + at, 8);
		if (left < 8) {
			word &= (1ULL << (left * 8)) - 1;
			word |= (__u64)(length + 8) << 56;
		}
		v3 ^= word;
		ROUND;
		v0 ^= word;
		if (left < 8)
			break;
	}
	v2 ^= 0xff;
	ROUND;
	ROUND;
	ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* Where the name of a Call-ID header field ends, if one begins at `at`; else 0. */
static __always_inline __u32 end_of_name(const struct window *window, __u32 at)
{
	const __u8 *line = window->bytes + at;

	if ((line[0] | 0x20) == 'i')
		return at + 1;
	if ((line[0] | 0x20) == 'c' && (line[1] | 0x20) == 'a' && (line[2] | 0x20) == 'l' && (line[3] | 0x20) == 'l' &&
	    line[4] == '-' && (line[5] | 0x20) == 'i' && (line[6] | 0x20) == 'd')
		return at + 7;
	return 0;
}

/* What the search for the header field knows. */
struct search {
	struct window *window;
	__u32 length;
	__u32 at;   /* where to go on */
	__u32 name; /* where the name ends, once it is found */
};

/* Goes on to the next line, eight bytes at a time, and looks at its name; ends the search with 1. */
static long next_line(__u32 step, struct search *search)
{
	const __u64 ones = 0x0101010101010101ULL, newlines = 0x0a0a0a0a0a0a0a0aULL;
	struct window *window = search->window;
	__u32 at = search->at & (WINDOW - 1), line = 0, name;

	for (__u32 ahead = 0; ahead < ID_MAX; ahead += 8) {
		__u64 bytes = *(__u64 *)(window->bytes + at + ahead) ^ newlines;
		__u64 found = (bytes - ones) & ~bytes & (ones << 7);

		if (found) {
			/* The lowest mark is true; below it lie as many whole bytes as stand before the newline. */
			line = at + ahead + ((((found & -found) - 1) & ones) * ones >> 56);
			break;
		}
	}
	if (!line) {
		if (at + ID_MAX >= search->length)
			return 1;
		search->at = forget(window, at + ID_MAX);
		return 0;
	}
	if (line >= search->length)
		return 1;
	line = forget(window, line);
	if (window->bytes[line] == '\r' || window->bytes[line] == '\n')
		return 1; /* the empty line */
	name = end_of_name(window, line);
	if (name && (window->bytes[name] == ':' || is_blank(window->bytes[name]))) {
		search->name = name;
		return 1;
	}
	search->at = line;
	return 0;
}

SEC("sk_reuseport")
int steer(struct sk_reuseport_md *ctx)
{
	__u32 zero = 0, length, at, end, owner;
	struct window *window = bpf_map_lookup_elem(&windows, &zero);
	struct search search = { .window = window };

	if (!window || ctx->len <= UDP_HEADER)
		return SK_PASS;
	length = ctx->len - UDP_HEADER;
	if (length > WINDOW)
		length = WINDOW;
	if (bpf_skb_load_bytes(ctx, UDP_HEADER, window->bytes, length))
		return SK_PASS;
	search.length = length;
	bpf_loop(WINDOW / 8, next_line, &search, 0);
	if (!search.name)
		return SK_PASS;

	at = forget(window, search.name);
	for (__u32 count = 0; count < 16 && is_blank(window->bytes[at & (WINDOW - 1)]); count++)
		at++;
	at = forget(window, at);
	if (window->bytes[at] != ':')
		return SK_PASS;
	at++;
	for (__u32 count = 0; count < 32 && is_space(window->bytes[at & (WINDOW - 1)]); count++)
		at++;
	at = forget(window, at);
	end = at;
	for (__u32 count = 0; count <= ID_MAX && !is_space(window->bytes[end & (WINDOW - 1)]); count++)
		end++;
	end = forget(window, end);
	/* Past the end lies what an earlier message left there. */
	if (end >= length || end <= at || end - at > ID_MAX || is_space(window->bytes[at]))
		return SK_PASS;

	owner = ((hash(window, at, end - at) >> 32) * shards) >> 32;

	/* Fails if that shard's socket is closed; then the kernel chooses among the others. */
	bpf_sk_select_reuseport(ctx, &sockets, &owner, 0);
	return SK_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
