/* Traces: what happens to each packet, in words, one line each. Programs call the p4_ functions in their traced build only, the
 * traffic manager the others where options.trace is set.
 *
 *     packet 1: in by port 3, 64 bytes
 *     packet 1: ingress
 *         table stations
 *             key hdr.ethernet.dst = 0x020000000001 (48 bits, ternary)
 *
 * A block is named when its first step is told, so that a block that does nothing shows nothing. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "switch.h"
#include "table.h"

#define STEP "    "
#define DETAIL "        "

/* One line in one write, so that lines of several switches do not mix. */
static void put(const p4_switch *sw, char *line, int len)
{
    if (len < 0) return;
    line[len] = '\n';
    for (int done = 0; done <= len;) {
        ssize_t n = write(sw->options.trace_fd, line + done, (size_t)(len + 1 - done));
        if (n <= 0) break;
        done += (int)n;
    }
    free(line);
}

static void put_all(const p4_switch *sw, const char *head, const char *format, va_list arguments)
{
    char *text, *line;
    if (vasprintf(&text, format, arguments) < 0) return;
    int len = asprintf(&line, "%s%s\n", head, text);
    free(text);
    put(sw, line, len - 1);
}

__attribute__((format(printf, 3, 4))) static void put_line(const p4_switch *sw, const char *head, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_all(sw, head, format, arguments);
    va_end(arguments);
}

void trace_event(p4_switch *sw, const struct packet *k, const char *format, ...)
{
    char head[32];
    snprintf(head, sizeof head, "packet %u: ", k->number);
    va_list arguments;
    va_start(arguments, format);
    put_all(sw, head, format, arguments);
    va_end(arguments);
}

void trace_number(p4_switch *sw, struct packet *k)
{
    k->number = ++sw->numbered;
    k->block = NULL;
}

const char *trace_reason(enum sw_drop reason)
{
    static const char *const why[SW_DROP_REASONS] = {
        [SW_DROP_NO_PROGRAM] = "no program is loaded", [SW_DROP_TOO_LONG] = "it is too long, or empty",
        [SW_DROP_NO_PACKET] = "too many packets are inside", [SW_DROP_RING_FULL] = "the receive ring was full",
        [SW_DROP_INGRESS] = "by ingress", [SW_DROP_EGRESS] = "by egress", [SW_DROP_QUEUE_FULL] = "the egress queue is full",
        [SW_DROP_PRIORITY] = "there is no queue of its priority", [SW_DROP_UNBOUND] = "the port has no interface",
        [SW_DROP_TX_ERROR] = "the interface does not take it",
        [SW_DROP_RECIRCULATE_FULL] = "the recirculation queue is full", [SW_DROP_CPU_FULL] = "the controller's queue is full",
        [SW_DROP_GIVEN_UP] = "it went round inside, and was given up"};
    return why[reason];
}

void trace_lost(p4_switch *sw, uint32_t port, enum sw_drop reason, uint32_t frames)
{
    put_line(sw, "", "port %u: %u frame%s dropped: %s", port, frames, frames == 1 ? "" : "s", trace_reason(reason));
}

/* Tell whether anyone listens, and name the block first. */
static bool begin(struct p4_packet *p)
{
    if (!traced(p->sw)) return false;
    struct packet *k = packet_of(p);
    if (k->block) trace_event(p->sw, k, "%s", k->block);
    k->block = NULL;
    return true;
}

void p4_trace(struct p4_packet *p, const char *format, ...)
{
    if (!begin(p)) return;
    va_list arguments;
    va_start(arguments, format);
    put_all(p->sw, STEP, format, arguments);
    va_end(arguments);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */
#define MOST_DIGITS (64 * KEY_WORDS / 4)
struct digits { char text[MOST_DIGITS + 3]; };

/* 0x and as many digits as the width has; of a width beyond MOST_DIGITS, the lowest ones. */
static const char *hexadecimal(struct digits *to, uint32_t width, const uint64_t *words)
{
    static const char digit[] = "0123456789abcdef";
    uint32_t n = (width + 3) / 4;
    if (n > MOST_DIGITS) n = MOST_DIGITS;
    char *at = to->text;
    *at++ = '0';
    *at++ = 'x';
    while (n--) *at++ = digit[words[n / 16] >> n % 16 * 4 & 15];
    *at = 0;
    return to->text;
}

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

void p4_trace_value(struct p4_packet *p, uint32_t detail, const char *name, uint32_t width, const uint64_t *words)
{
    if (!begin(p)) return;
    struct digits d;
    put_line(p->sw, detail ? DETAIL : STEP, "%s = %s (%u bit%s)", name, hexadecimal(&d, width, words), width, plural(width));
}

static char *hex_bytes(const uint8_t *data, uint32_t len)
{
    char *text = malloc(2 * (size_t)len + 1);
    if (!text) return NULL;
    for (uint32_t i = 0; i < len; i++) sprintf(text + 2 * i, "%02x", data[i]);
    text[2 * (size_t)len] = 0;
    return text;
}

void p4_trace_bits(struct p4_packet *p, uint32_t detail, const char *name, const uint8_t *data, uint32_t bits)
{
    if (!begin(p)) return;
    char *text = hex_bytes(data, (bits + 7) / 8);
    put_line(p->sw, detail ? DETAIL : STEP, "%s = %s%s (%u bits)", name, bits ? "0x" : "", text ? text : "", bits);
    free(text);
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */
static const char *const match_names[] = {[P4_EXACT] = "exact", [P4_LPM] = "lpm", [P4_TERNARY] = "ternary", [P4_RANGE] = "range",
                                          [P4_OPTIONAL] = "optional", [P4_SELECTOR] = "selector"};

static uint32_t set_bits(const uint64_t *words, uint32_t width)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < P4_WORDS(width); i++) n += (uint32_t)__builtin_popcountll(words[i]);
    return n;
}

static void tell_entry_key(p4_switch *sw, const struct p4_table *t, const struct table_entry *e, const struct p4_key_desc *key)
{
    const uint64_t *value = e->words + key->word, *mask = value + t->key_words;
    const uint64_t *low = t->has_ranges ? mask + t->key_words : NULL, *high = low ? low + t->key_words : NULL;
    struct digits a, b;
    hexadecimal(&a, key->width, value);
    switch (key->match) {
    case P4_LPM: put_line(sw, DETAIL, "    %s: %s/%u", key->name, a.text, set_bits(mask, key->width)); break;
    case P4_RANGE:
        if (low && high)
            put_line(sw, DETAIL, "    %s: %s..%s", key->name, hexadecimal(&a, key->width, low), hexadecimal(&b, key->width, high));
        break;
    case P4_SELECTOR: break;
    case P4_EXACT: put_line(sw, DETAIL, "    %s: %s", key->name, a.text); break;
    default:
        if (!set_bits(mask, key->width)) put_line(sw, DETAIL, "    %s: anything", key->name);
        else if (set_bits(mask, key->width) == key->width) put_line(sw, DETAIL, "    %s: %s", key->name, a.text);
        else put_line(sw, DETAIL, "    %s: %s &&& %s", key->name, a.text, hexadecimal(&b, key->width, mask));
    }
}

static void tell_action(p4_switch *sw, const struct p4_action_desc *action, const uint64_t *data)
{
    put_line(sw, DETAIL, "action %s", action->name);
    for (uint32_t i = 0; i < action->n_params; i++) {
        const struct p4_field_desc *param = &action->params[i];
        struct digits d;
        hexadecimal(&d, param->width, data + param->word);
        put_line(sw, DETAIL, "    %s = %s (%u bit%s)", param->name, d.text, param->width, plural(param->width));
    }
}

void p4_trace_lookup(struct p4_packet *p, uint32_t index, const uint64_t *key, const struct p4_entry *result)
{
    if (!begin(p)) return;
    p4_switch *sw = p->sw;
    const struct p4_table *t = &sw->tables[index];
    const struct p4_table_desc *d = t->desc;
    put_line(sw, STEP, "table %s", d->name);
    for (uint32_t i = 0; i < d->n_keys; i++) {
        const struct p4_key_desc *k = &d->keys[i];
        struct digits value;
        hexadecimal(&value, k->width, key + k->word);
        put_line(sw, DETAIL, "key %s = %s (%u bit%s, %s)", k->name, value.text, k->width, plural(k->width), match_names[k->match]);
    }
    const struct table_entry *e = t->kind == TABLE_KEYLESS ? NULL : table_find(t, key);
    if (!e) {
        put_line(sw, DETAIL, "%s", d->n_keys ? "miss: the default action" : "no key: the default action");
    } else {
        if (t->kind == TABLE_PRIORITY) put_line(sw, DETAIL, "hit: the entry of priority %d", e->priority);
        else put_line(sw, DETAIL, "hit");
        for (uint32_t i = 0; t->kind != TABLE_EXACT && i < d->n_keys; i++) tell_entry_key(sw, t, e, &d->keys[i]);
        const struct choices *choices = atomic_load_explicit(&e->choices, memory_order_acquire);
        if (choices && choices->n) put_line(sw, DETAIL, "one of %u members, by a hash of the selector keys", choices->n);
        if (choices && !choices->n) put_line(sw, DETAIL, "its group is empty: the default action");
        if (d->direct_counter >= 0) put_line(sw, DETAIL, "counter %s counts", sw->program->counters[d->direct_counter].name);
    }
    tell_action(sw, &sw->program->actions[d->actions[result->action]], result->data);
}

/* ---- frames -------------------------------------------------------------------------------------------------------- */
void trace_parsed(p4_switch *sw, struct packet *k)
{
    const struct p4_packet *p = &k->p;
    uint32_t parsed = p->len - p->payload_len, error = p->std.parser_error;
    if (k->block) trace_event(sw, k, "%s", k->block);
    k->block = NULL;
    const char *name = error < sw->program->n_errors ? sw->program->errors[error] : "?";
    if (error) put_line(sw, STEP, "reject with error.%s: %u bytes parsed, %u of payload", name, parsed, p->payload_len);
    else put_line(sw, STEP, "accept: %u bytes parsed, %u of payload", parsed, p->payload_len);
}

void trace_frame(p4_switch *sw, const struct packet *k, uint32_t port, const uint8_t *frame, uint32_t len)
{
    enum { PER_LINE = 32 };
    trace_event(sw, k, "out by port %u, %u byte%s", port, len, plural(len));
    for (uint32_t at = 0; at < len; at += PER_LINE) {
        char *text = hex_bytes(frame + at, len - at < PER_LINE ? len - at : PER_LINE);
        put_line(sw, STEP, "%s", text ? text : "");
        free(text);
    }
}
