/* Drives any compiled program under AddressSanitizer and UBSan: frames from a file, and mutations of them, on every port, while tables,
 * default actions, value sets, groups, sessions, registers and meters change at random. Prints "ok" when nothing was found.
 *
 *     driver PROGRAM.so FRAMES SEED ROUNDS
 *
 * FRAMES: records of u32 length, bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

enum { LONGEST = 1600, MOST_FRAMES = 4096, MOST_WORDS = 512 };

static uint64_t state;
static uint32_t roll(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, sw_error());
    exit(1);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */
/* A value of `width` bits at words[at]: small, random or near the largest, as each of them finds other faults. */
static void fill(uint64_t *words, uint32_t at, uint32_t width)
{
    uint32_t n = (width + 63) / 64, kind = roll(4);
    for (uint32_t i = 0; i < n; i++) words[at + i] = kind == 3 ? ~0ull : kind == 2 ? (uint64_t)roll(~0u) << 32 | roll(~0u) : 0;
    if (kind < 2) words[at] = roll(4);
    if (width % 64) words[at + n - 1] &= (1ull << width % 64) - 1;
}

static void action_data(const struct p4_action_desc *action, uint64_t *data)
{
    for (uint32_t i = 0; i < action->n_params; i++) {
        fill(data, action->params[i].word, action->params[i].width);
        if (action->params[i].width >= 9 && roll(2)) data[action->params[i].word] &= 0x1f; /* a likely port */
    }
}

static void update_table(p4_switch *sw, const struct p4_program *program)
{
    if (!program->n_tables) return;
    uint32_t index = roll(program->n_tables);
    const struct p4_table_desc *table = &program->tables[index];
    uint64_t words[MOST_WORDS] = {0}, *value = words, *mask = words + table->key_words, *data = mask + table->key_words;
    uint32_t action = roll(table->n_actions);
    const struct p4_action_desc *chosen = &program->actions[table->actions[action]];
    if (2 * table->key_words + chosen->data_words > MOST_WORDS) return;
    for (uint32_t k = 0; k < table->n_keys; k++) {
        const struct p4_key_desc *key = &table->keys[k];
        uint32_t n = (key->width + 63) / 64;
        fill(value, key->word, key->width);
        fill(mask, key->word, key->width);
        if (key->match == P4_EXACT || key->match == P4_OPTIONAL || (key->match == P4_LPM && roll(2))) {
            bool whole = key->match != P4_OPTIONAL || roll(2);
            for (uint32_t i = 0; i < n; i++) mask[key->word + i] = whole ? ~0ull : 0;
            if (key->width % 64) mask[key->word + n - 1] &= (1ull << key->width % 64) - 1;
        } else if (key->match == P4_LPM) {
            for (uint32_t i = 0; i < n; i++) mask[key->word + i] = 0;
        }
    }
    action_data(chosen, data);
    struct sw_table_op op = {.op = 1 + roll(3), .table = index, .action = action, .priority = 1 + (int32_t)roll(4)};
    if (roll(8) == 0) {
        sw_default_set(sw, index, action, data, chosen->data_words);
        return;
    }
    sw_table_apply(sw, &op, 1, words, 2 * table->key_words + chosen->data_words); /* much of it is refused, rightly */
    if (table->action_profile >= 0 && program->profiles[table->action_profile].selector) {
        uint32_t actions[3] = {action, action, action};
        uint64_t choice[3 * MOST_WORDS];
        for (int i = 0; i < 3; i++) memcpy(choice + i * chosen->data_words, data, chosen->data_words * sizeof *data);
        sw_table_choose(sw, &op, words, roll(4), actions, choice, 3 * chosen->data_words);
    }
}

static void update_values(p4_switch *sw, const struct p4_program *program)
{
    uint64_t words[MOST_WORDS] = {0}, masks[MOST_WORDS] = {0};
    if (program->n_value_sets) {
        uint32_t index = roll(program->n_value_sets), n = roll(3);
        const struct p4_value_set_desc *set = &program->value_sets[index];
        for (uint32_t m = 0; m < n && (m + 1) * set->words <= MOST_WORDS; m++)
            for (uint32_t f = 0; f < set->n_fields; f++) {
                fill(words, m * set->words + set->fields[f].word, set->fields[f].width);
                fill(masks, m * set->words + set->fields[f].word, set->fields[f].width);
            }
        sw_value_set_write(sw, index, n, words, masks);
    }
    if (program->n_registers) {
        uint32_t index = roll(program->n_registers);
        const struct p4_register_desc *reg = &program->registers[index];
        if (reg->size && (reg->width + 63) / 64 < MOST_WORDS) {
            fill(words, 0, reg->width);
            if (sw_register_write(sw, index, roll(reg->size), 1, words)) die(reg->name);
        }
    }
    if (program->n_meters) {
        struct sw_meter_config config = {.configured = roll(2), .cir = roll(5000), .cburst = roll(200),
                                         .pir = 5000 + roll(9000), .pburst = roll(900), .eburst = roll(3) ? 0 : roll(900)};
        uint32_t index = roll(program->n_meters);
        if (program->meters[index].table < 0 && program->meters[index].size)
            sw_meter_write(sw, index, roll(program->meters[index].size), &config);
    }
    struct sw_replica replicas[4];
    uint32_t n = roll(4);
    for (uint32_t i = 0; i < n; i++) replicas[i] = (struct sw_replica){roll(20), i};
    if (roll(2)) sw_multicast_set(sw, 1 + roll(8), replicas, n);
    else sw_clone_set(sw, 1 + roll(8), replicas, n, roll(2) ? 0 : roll(200));
}

/* ---- frames -------------------------------------------------------------------------------------------------------- */
static uint8_t *seeds[MOST_FRAMES];
static uint32_t lengths[MOST_FRAMES], n_seeds;

static void read_frames(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint32_t length;
    if (!file) die(path);
    while (n_seeds < MOST_FRAMES && fread(&length, sizeof length, 1, file) == 1) {
        if (length > LONGEST || !(seeds[n_seeds] = malloc(length + 1)) || fread(seeds[n_seeds], 1, length, file) != length) die(path);
        lengths[n_seeds++] = length;
    }
    fclose(file);
}

/* A frame of the file, mutated: bits, bytes, a piece repeated or taken out, the end cut off or something behind it; or noise. */
static uint32_t make(uint8_t *frame)
{
    uint32_t length = 0;
    if (n_seeds && roll(8)) {
        uint32_t which = roll(n_seeds);
        length = lengths[which];
        memcpy(frame, seeds[which], length);
    } else {
        length = 1 + roll(roll(4) ? 80 : LONGEST);
        for (uint32_t i = 0; i < length; i++) frame[i] = (uint8_t)roll(256);
    }
    for (uint32_t times = roll(5); times && length; times--) {
        uint32_t at = roll(length), piece = 1 + roll(length - at);
        static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
        switch (roll(6)) {
        case 0: frame[at] ^= (uint8_t)(1 << roll(8)); break;
        case 1: frame[at] = edges[roll(sizeof edges)]; break;
        case 2: frame[at] = (uint8_t)roll(256); break;
        case 3:
            memmove(frame + at, frame + at + piece, length - at - piece);
            length -= piece;
            break;
        case 4:
            if (length + piece > LONGEST) break;
            memmove(frame + at + piece, frame + at, length - at);
            length += piece;
            break;
        default: length = 1 + roll(length); break;
        }
    }
    if (roll(4) == 0)
        for (uint32_t more = roll(200); more && length < LONGEST; more--) frame[length++] = (uint8_t)roll(256);
    return length ? length : 1;
}

static void inject(p4_switch *sw)
{
    static uint8_t made[LONGEST], out[1 << 20];
    uint32_t length = make(made);
    uint8_t *exact = malloc(length); /* so that reading past its end is found */
    memcpy(exact, made, length);
    int status = sw_inject(sw, roll(10) ? roll(16) : roll(512), exact, length);
    free(exact);
    if (status != SW_OK && status != SW_ENDLESS) die("inject");
    if (sw_inject_output(sw, out, sizeof out) < 0) die("output");
    while (sw_digest_wait(sw, out, sizeof out, 0) > 0) {}
    while (sw_packet_in_wait(sw, out, sizeof out, 0) > 0) {}
}

int main(int argc, char **argv)
{
    struct sw_options options = {.cpu_port = 510, .drop_port = 511, .event_port = SW_NONE, .packets = 256, .queue_depth = 32,
                                 .recirculate_depth = 64, .priorities = 2, .ring_frames = 64};
    if (argc != 5) return 2;
    read_frames(argv[2]);
    state = 88172645463325252u ^ strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15u;
    p4_switch *sw = sw_new(&options);
    if (!sw || sw_load(sw, argv[1])) die(argv[1]);
    const struct p4_program *program = sw_program(sw);
    for (unsigned long round = strtoul(argv[4], NULL, 10); round; round--) {
        for (uint32_t i = roll(3); i; i--) update_table(sw, program);
        if (roll(8) == 0) update_values(sw, program);
        for (uint32_t i = 1 + roll(4); i; i--) inject(sw);
    }
    sw_free(sw);
    puts("ok");
    return 0;
}
