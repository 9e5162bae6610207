/* The control plane's view of the switch: its life, programs, externs, replication, packet I/O. Tables are in table_control.c, ports in
 * port.c. See switch.h for how these functions and the data plane keep out of each other's way. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "switch.h"

#define RING_BYTES (1u << 20)
#define MOST_PASSES 100000                 /* of one injected packet and its copies */
#define MOST_PASSES_TOLD 200               /* where each pass is told of */

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */
static int check_options(const struct sw_options *o)
{
    if (o->drop_port >= N_PORTS) return fail(SW_INVALID, "drop port %u: ports are 0 to %d", o->drop_port, N_PORTS - 1);
    if (o->cpu_port != SW_NONE && (o->cpu_port >= N_PORTS || o->cpu_port == o->drop_port))
        return fail(SW_INVALID, "CPU port %u: it must be 0 to %d and not the drop port", o->cpu_port, N_PORTS - 1);
    if (o->event_port != SW_NONE && (o->event_port >= N_PORTS || o->event_port == o->drop_port || o->event_port == o->cpu_port))
        return fail(SW_INVALID, "event port %u: it must be 0 to %d, not the drop port and not the CPU port", o->event_port, N_PORTS - 1);
    if (!o->priorities || o->priorities > MAX_PRIORITIES)
        return fail(SW_INVALID, "%u priorities: 1 to %d are possible", o->priorities, MAX_PRIORITIES);
    if (o->packets < 2 * BURST) return fail(SW_INVALID, "%u packets are too few; at least %d", o->packets, 2 * BURST);
    if (o->ring_frames < BURST) return fail(SW_INVALID, "%u ring frames are too few; at least %d", o->ring_frames, BURST);
    if (!o->queue_depth || !o->recirculate_depth) return fail(SW_INVALID, "a queue must hold at least one packet");
    return SW_OK;
}

p4_switch *sw_new(const struct sw_options *options)
{
    if (check_options(options)) return NULL;
    p4_switch *sw = calloc(1, sizeof *sw);
    if (!sw) {
        fail(SW_SYSTEM, "no memory for a switch");
        return NULL;
    }
    sw->options = *options;
    sw->options.pcap_dir = NULL;
    sw->start_ns = sw->now_ns = clock_ns();
    sw->poll = sw->wake = sw->netlink = -1;
    sw->packet_in.event = sw->packet_out.event = sw->digests.event = -1;
    pthread_mutexattr_t recursive;         /* so that a thread can go on inside sw_pause() */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&sw->control, &recursive);
    pthread_mutex_init(&sw->gate, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&sw->packet_out_producer, NULL);
    uint32_t n = N_PORTS * options->priorities;
    sw->queues = calloc(n, sizeof *sw->queues);
    sw->sessions = calloc(MAX_SESSIONS, sizeof *sw->sessions);
    sw->groups = calloc(MAX_GROUPS, sizeof *sw->groups);
    if (options->pcap_dir) sw->pcap_dir = strdup(options->pcap_dir);
    bool memory = sw->queues && sw->sessions && sw->groups && (!options->pcap_dir || sw->pcap_dir);
    if (!memory) fail(SW_SYSTEM, "no memory for a switch");
    if (!memory || ring_init(&sw->packet_in, RING_BYTES) || ring_init(&sw->packet_out, RING_BYTES) ||
        ring_init(&sw->digests, RING_BYTES) || getrandom(sw->random, sizeof sw->random, 0) < 0) {
        sw_free(sw);
        return NULL;
    }
    sw->random[0] |= 1;
    for (uint32_t i = 0; i < n; i++) sw->queues[i].depth = options->queue_depth;
    return sw;
}

static void clear_replication(p4_switch *sw)
{
    for (uint32_t i = 0; i < MAX_SESSIONS; i++)
        if (atomic_load(&sw->sessions[i])) free(atomic_exchange(&sw->sessions[i], NULL));
    for (uint32_t i = 0; i < MAX_GROUPS; i++)
        if (atomic_load(&sw->groups[i])) free(atomic_exchange(&sw->groups[i], NULL));
}

void sw_free(p4_switch *sw)
{
    if (!sw) return;
    sw_stop(sw);
    for (uint32_t port = 0; port < N_PORTS; port++)
        if (sw->ports[port]) sw_port_remove(sw, port);
    if (sw->sessions && sw->groups) clear_replication(sw);
    reclaim(sw, true);
    free(sw->graveyard.items);
    void *library = sw->pipeline.library;
    pipeline_free(&sw->pipeline);
    pool_free(&sw->pool);
    if (library) dlclose(library);
    ring_free(&sw->packet_in);
    ring_free(&sw->packet_out);
    ring_free(&sw->digests);
    free(sw->queues);
    free((void *)sw->sessions);
    free((void *)sw->groups);
    free(sw->capture.bytes);
    free(sw->pcap_dir);
    free(sw);
}

uint64_t sw_now_us(p4_switch *sw) { return (clock_ns() - sw->start_ns) / 1000; }

/* ---- programs ------------------------------------------------------------------------------------------------------ */
int sw_load(p4_switch *sw, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail(SW_INVALID, "cannot load the program: %s", dlerror());
    const struct p4_program *(*get)(void);
    *(void **)&get = dlsym(library, "p4_program_get");
    const struct p4_program *program = get ? get() : NULL;
    struct pipeline fresh = {0}, old;
    struct pool pool = {0}, old_pool;
    pthread_mutex_lock(&sw->control);
    int status = program ? pipeline_build(sw, program, library, &fresh)
                         : fail(SW_INVALID, "%s is no compiled P4 program: it has no p4_program_get()", path);
    if (!status) status = pool_init(&pool, sw->options.packets, program->phv_size);
    if (status) {
        fresh.library = NULL;
        pipeline_free(&fresh);
        pthread_mutex_unlock(&sw->control);
        dlclose(library);
        return status;
    }
    gate_enter(sw);
    traffic_finish(sw);
    old = sw->pipeline;
    old_pool = sw->pool;
    sw->pipeline = fresh;
    sw->pool = pool;
    sw->program = program;
    sw->tables = fresh.tables;
    clear_replication(sw);
    port_announce_all(sw);
    gate_leave(sw);
    reclaim(sw, false);
    library = old.library;
    pipeline_free(&old);
    pool_free(&old_pool);
    if (library) dlclose(library);
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}

int sw_adopt(p4_switch *sw, p4_switch *from, bool carry)
{
    if (sw == from) return fail(SW_INVALID, "a switch cannot adopt its own program");
    pthread_mutex_lock(&from->control);
    int status = !from->program ? fail(SW_STATE, "the other switch has no program loaded")
                 : from->started ? fail(SW_STATE, "the other switch runs")
                                 : SW_OK;
    if (status) {
        pthread_mutex_unlock(&from->control);
        return status;
    }
    traffic_flush(from);
    pthread_mutex_lock(&sw->control);
    gate_enter(sw);
    traffic_finish(sw);
    if (carry && sw->program) carry_state(&sw->pipeline, &from->pipeline);
#define SWAP(member) __typeof__(sw->member) member##_old = sw->member; sw->member = from->member; from->member = member##_old
    SWAP(pipeline);
    SWAP(pool);
    SWAP(program);
    SWAP(tables);
    SWAP(sessions);
    SWAP(groups);
#undef SWAP
    port_announce_all(sw);
    gate_leave(sw);
    reclaim(sw, false);
    pthread_mutex_unlock(&sw->control);
    pthread_mutex_unlock(&from->control);
    return SW_OK;
}

const struct p4_program *sw_program(p4_switch *sw) { return sw->program; }

void sw_pause(p4_switch *sw)
{
    pthread_mutex_lock(&sw->control);
    gate_enter(sw);
}

void sw_resume(p4_switch *sw)
{
    gate_leave(sw);
    pthread_mutex_unlock(&sw->control);
}

/* Take `control`; fails when no program is loaded. */
static int enter(p4_switch *sw)
{
    pthread_mutex_lock(&sw->control);
    if (sw->program) return SW_OK;
    pthread_mutex_unlock(&sw->control);
    return fail(SW_STATE, "no program is loaded");
}

/* Take `control` and the gate, to work on cells [first, first + n) of an object of `size` cells. */
static int enter_cells(p4_switch *sw, const char *what, uint32_t object, uint32_t n_objects, uint32_t size, uint32_t first, uint32_t n)
{
    int status = SW_OK;
    if (object >= n_objects) status = fail(SW_INVALID, "there is no %s %u; the program has %u", what, object, n_objects);
    else if (first > size || n > size - first)
        status = fail(SW_INVALID, "%s index %u is out of range: it has %u cells", what, n ? first + n - 1 : first, size);
    if (status) {
        pthread_mutex_unlock(&sw->control);
        return status;
    }
    gate_enter(sw);
    return SW_OK;
}

static int leave(p4_switch *sw)
{
    gate_leave(sw);
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}

/* ---- counters, registers, meters ----------------------------------------------------------------------------------- */
static int enter_counter(p4_switch *sw, uint32_t counter, uint32_t first, uint32_t n)
{
    int status = enter(sw);
    if (status) return status;
    const struct p4_program *g = sw->program;
    if (counter < g->n_counters && g->counters[counter].table >= 0) {
        pthread_mutex_unlock(&sw->control);
        return fail(SW_INVALID, "counter %s is direct: it is read with its table's entries", g->counters[counter].name);
    }
    return enter_cells(sw, "counter", counter, g->n_counters, counter < g->n_counters ? g->counters[counter].size : 0, first, n);
}

int sw_counter_read(p4_switch *sw, uint32_t counter, uint32_t first, uint32_t n, uint64_t *out)
{
    int status = enter_counter(sw, counter, first, n);
    if (status) return status;
    for (uint32_t i = 0; i < n; i++) {
        out[2 * i] = sw->pipeline.counters[counter][first + i].packets;
        out[2 * i + 1] = sw->pipeline.counters[counter][first + i].bytes;
    }
    return leave(sw);
}

int sw_counter_write(p4_switch *sw, uint32_t counter, uint32_t index, uint64_t packets, uint64_t bytes)
{
    int status = enter_counter(sw, counter, index, 1);
    if (status) return status;
    sw->pipeline.counters[counter][index] = (struct counter_cell){packets, bytes};
    return leave(sw);
}

static int enter_register(p4_switch *sw, uint32_t reg, uint32_t first, uint32_t n)
{
    int status = enter(sw);
    if (status) return status;
    const struct p4_program *g = sw->program;
    return enter_cells(sw, "register", reg, g->n_registers, reg < g->n_registers ? g->registers[reg].size : 0, first, n);
}

int sw_register_read(p4_switch *sw, uint32_t reg, uint32_t first, uint32_t n, uint64_t *out)
{
    int status = enter_register(sw, reg, first, n);
    if (status) return status;
    const struct p4_register_state *r = &sw->pipeline.registers[reg];
    memcpy(out, r->cells + (size_t)first * r->words, (size_t)n * r->words * sizeof *out);
    return leave(sw);
}

int sw_register_write(p4_switch *sw, uint32_t reg, uint32_t first, uint32_t n, const uint64_t *in)
{
    int status = enter_register(sw, reg, first, n);
    if (status) return status;
    const struct p4_register_state *r = &sw->pipeline.registers[reg];
    memcpy(r->cells + (size_t)first * r->words, in, (size_t)n * r->words * sizeof *in);
    return leave(sw);
}

static int enter_meter(p4_switch *sw, uint32_t meter, uint32_t index)
{
    int status = enter(sw);
    if (status) return status;
    const struct p4_program *g = sw->program;
    if (meter < g->n_meters && g->meters[meter].table >= 0) {
        pthread_mutex_unlock(&sw->control);
        return fail(SW_INVALID, "meter %s is direct: it is configured with its table's entries", g->meters[meter].name);
    }
    return enter_cells(sw, "meter", meter, g->n_meters, meter < g->n_meters ? g->meters[meter].size : 0, index, 1);
}

int sw_meter_read(p4_switch *sw, uint32_t meter, uint32_t index, struct sw_meter_config *config)
{
    int status = enter_meter(sw, meter, index);
    if (status) return status;
    meter_describe(&sw->pipeline.meters[meter][index], config);
    return leave(sw);
}

int sw_meter_write(p4_switch *sw, uint32_t meter, uint32_t index, const struct sw_meter_config *config)
{
    if (config->configured && config->cir > config->pir)
        return fail(SW_INVALID, "committed rate %llu is above the peak rate %llu", (unsigned long long)config->cir,
                    (unsigned long long)config->pir);
    int status = enter_meter(sw, meter, index);
    if (status) return status;
    meter_configure(&sw->pipeline.meters[meter][index], config, clock_ns());
    return leave(sw);
}

int sw_meter_counts(p4_switch *sw, uint32_t meter, uint32_t index, uint64_t counts[METER_COUNTS], bool set)
{
    int status = enter_meter(sw, meter, index);
    if (status) return status;
    meter_counts(&sw->pipeline.meters[meter][index], counts, set);
    return leave(sw);
}

int sw_value_set_write(p4_switch *sw, uint32_t index, uint32_t n, const uint64_t *values, const uint64_t *masks)
{
    int status = enter(sw);
    if (status) return status;
    const struct p4_program *g = sw->program;
    const struct p4_value_set_desc *d = index < g->n_value_sets ? &g->value_sets[index] : NULL;
    struct value_set *set = NULL;
    if (!d) status = fail(SW_INVALID, "there is no value set %u; the program has %u", index, g->n_value_sets);
    else if (n > d->size) status = fail(SW_FULL, "value set %s holds %u members, not %u", d->name, d->size, n);
    else if (!(set = malloc(sizeof *set + (size_t)n * 2 * d->words * sizeof(uint64_t))))
        status = fail(SW_SYSTEM, "no memory for value set %s", d->name);
    if (!status) {
        *set = (struct value_set){.n = n, .words = d->words};
        for (uint32_t i = 0; i < d->n_fields; i++) set->has_ranges |= d->fields[i].match == P4_RANGE;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(set->pairs + (size_t)i * 2 * d->words, values + (size_t)i * d->words, d->words * sizeof *values);
            memcpy(set->pairs + (size_t)(i * 2 + 1) * d->words, masks + (size_t)i * d->words, d->words * sizeof *masks);
        }
        retire(sw, atomic_exchange(&sw->pipeline.value_sets[index], set));
        reclaim(sw, false);
    }
    pthread_mutex_unlock(&sw->control);
    return status;
}

/* ---- replication --------------------------------------------------------------------------------------------------- */
static int publish(p4_switch *sw, struct replication *_Atomic *at, const struct sw_replica *replicas, uint32_t n, uint32_t truncate)
{
    for (uint32_t i = 0; i < n; i++)
        if (replicas[i].port >= N_PORTS || replicas[i].rid > UINT16_MAX)
            return fail(SW_INVALID, "replica %u: port %u, instance %u; ports are below %d, instances below 65536", i, replicas[i].port,
                        replicas[i].rid, N_PORTS);
    struct replication *r = malloc(sizeof *r + n * sizeof *r->replica);
    if (!r) return fail(SW_SYSTEM, "no memory for %u replicas", n);
    *r = (struct replication){.n = n, .truncate = truncate};
    if (n) memcpy(r->replica, replicas, n * sizeof *replicas);
    pthread_mutex_lock(&sw->control);
    retire(sw, atomic_exchange(at, r));
    reclaim(sw, false);
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}

static int withdraw(p4_switch *sw, struct replication *_Atomic *at, const char *what, uint32_t id)
{
    pthread_mutex_lock(&sw->control);
    struct replication *old = atomic_exchange(at, NULL);
    retire(sw, old);
    reclaim(sw, false);
    pthread_mutex_unlock(&sw->control);
    return old ? SW_OK : fail(SW_MISSING, "there is no %s %u", what, id);
}

int sw_multicast_set(p4_switch *sw, uint32_t group, const struct sw_replica *replicas, uint32_t n)
{
    if (!group || group >= MAX_GROUPS) return fail(SW_INVALID, "multicast group %u: groups are 1 to %d", group, MAX_GROUPS - 1);
    return publish(sw, &sw->groups[group], replicas, n, 0);
}

int sw_multicast_delete(p4_switch *sw, uint32_t group)
{
    if (group >= MAX_GROUPS) return fail(SW_MISSING, "there is no multicast group %u", group);
    return withdraw(sw, &sw->groups[group], "multicast group", group);
}

int sw_clone_set(p4_switch *sw, uint32_t session, const struct sw_replica *replicas, uint32_t n, uint32_t truncate)
{
    if (session >= MAX_SESSIONS) return fail(SW_INVALID, "clone session %u: sessions are below %d", session, MAX_SESSIONS);
    return publish(sw, &sw->sessions[session], replicas, n, truncate);
}

int sw_clone_delete(p4_switch *sw, uint32_t session)
{
    if (session >= MAX_SESSIONS) return fail(SW_MISSING, "there is no clone session %u", session);
    return withdraw(sw, &sw->sessions[session], "clone session", session);
}

/* ---- packet I/O and injection -------------------------------------------------------------------------------------- */
static int check_frame(uint32_t port, uint32_t len)
{
    if (port >= N_PORTS) return fail(SW_INVALID, "port %u: ports are 0 to %d", port, N_PORTS - 1);
    if (!len || len > MAX_FRAME) return fail(SW_INVALID, "a frame of %u bytes: frames have 1 to %d", len, MAX_FRAME);
    return SW_OK;
}

int sw_packet_out(p4_switch *sw, uint32_t ingress_port, const uint8_t *data, uint32_t len)
{
    int status = check_frame(ingress_port, len);
    if (status) return status;
    pthread_mutex_lock(&sw->packet_out_producer);
    bool room = ring_put(&sw->packet_out, ingress_port, data, len, NULL, 0);
    pthread_mutex_unlock(&sw->packet_out_producer);
    if (!room) return fail(SW_FULL, "the packet-out queue is full");
    loop_wake(sw);
    return SW_OK;
}

int sw_packet_in_wait(p4_switch *sw, uint8_t *out, uint32_t capacity, int timeout_ms)
{
    return ring_wait(&sw->packet_in, out, capacity, timeout_ms);
}

int sw_digest_wait(p4_switch *sw, uint8_t *out, uint32_t capacity, int timeout_ms)
{
    return ring_wait(&sw->digests, out, capacity, timeout_ms);
}

int sw_inject(p4_switch *sw, uint32_t port, const uint8_t *data, uint32_t len)
{
    int status = check_frame(port, len);
    if (status) return status;
    pthread_mutex_lock(&sw->control);
    gate_enter(sw);
    if (!sw->program) status = fail(SW_STATE, "no program is loaded");
    if (!status) {
        sw->capture.on = true;
        sw->capture.n = 0;
        sw->now_ns = clock_ns();
        uint64_t first = sw->passes, most = traced(sw) ? MOST_PASSES_TOLD : MOST_PASSES;
        traffic_receive(sw, port, (uint8_t *)(uintptr_t)data, len, NULL);
        while ((sw->n_active || sw->n_recirculated) && sw->passes - first <= most) {
            sw->now_ns = clock_ns();
            traffic_recirculated(sw);
            traffic_serve(sw, true);
        }
        if (sw->n_active || sw->n_recirculated) {
            traffic_flush(sw);
            status = fail(SW_ENDLESS, "the packet still goes round after %d passes; it was given up", (int)most);
        }
        sw->capture.on = false;
    }
    gate_leave(sw);
    pthread_mutex_unlock(&sw->control);
    return status;
}

int64_t sw_inject_output(p4_switch *sw, uint8_t *out, uint64_t capacity)
{
    pthread_mutex_lock(&sw->control);
    int64_t n = (int64_t)sw->capture.n;
    if (n && (uint64_t)n <= capacity) memcpy(out, sw->capture.bytes, (size_t)n);
    pthread_mutex_unlock(&sw->control);
    return n;
}
