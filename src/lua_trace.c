/*
 * Traces: the slices of an emulated run as text in the trace-event format that Perfetto and
 * chrome://tracing read, and report:trace, which writes it.
 */
#include "lua_dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)256 << 20)

struct trace {
	char *text;
	size_t length, capacity;
	bool cut;
	uint64_t *tracks; /* those that have a name; a hash table */
	size_t track_count, track_room;
};

/* ---- text -------------------------------------------------------------------------------------
 */

static void add(struct trace *t, const char *text, size_t length)
{
	if (t->length + length > t->capacity && !t->cut) {
		size_t wanted = 2 * (t->length + length) + 4096;
		char *grown = wanted <= MAX_TEXT ? realloc(t->text, wanted) : NULL;

		t->cut = !grown;
		if (grown) {
			t->text = grown;
			t->capacity = wanted;
		}
	}
	if (t->cut)
		return;
	memcpy(t->text + t->length, text, length);
	t->length += length;
}

/* Between quotes in JSON. */
static void escape(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; *from && n + 7 < size; from++) {
		unsigned char c = (unsigned char)*from;

		if (c < 0x20)
			n += (size_t)snprintf(to + n, size - n, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			n += (size_t)snprintf(to + n, size - n, "\\%c", c);
		else
			to[n++] = *from;
	}
	to[n] = 0;
}

/* ---- tracks -----------------------------------------------------------------------------------
 */

static bool insert(struct trace *t, uint64_t key)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (t->track_room - 1);

	while (t->tracks[i] && t->tracks[i] != key)
		i = (i + 1) & (t->track_room - 1);
	if (t->tracks[i])
		return false;
	t->tracks[i] = key;
	t->track_count++;
	return true;
}

static bool make_room(struct trace *t)
{
	size_t old_room = t->track_room;
	uint64_t *old = t->tracks;

	if (t->tracks && 2 * t->track_count < t->track_room)
		return true;
	t->track_room = old_room ? 2 * old_room : 256;
	t->tracks = calloc(t->track_room, sizeof *t->tracks);
	if (!t->tracks) {
		t->tracks = old;
		t->track_room = old_room;
		return false;
	}
	t->track_count = 0;
	for (size_t i = 0; i < old_room; i++)
		if (old[i])
			insert(t, old[i]);
	free(old);
	return true;
}

static void name_track(struct trace *t, const struct emu_trace_event *e, uint64_t pid, uint32_t tid,
		       const char *track)
{
	char line[640];

	if (!make_room(t) || !insert(t, (pid << 12 | tid) + 1))
		return;
	int n = snprintf(line, sizeof line,
			 "{\"ph\":\"M\",\"pid\":%llu,\"name\":\"process_name\",\"args\":{\"name\":"
			 "\"CTA (%u,%u,%u)\"}},\n"
			 "{\"ph\":\"M\",\"pid\":%llu,\"tid\":%u,\"name\":\"thread_name\",\"args\":"
			 "{\"name\":\"%s\"}},\n"
			 "{\"ph\":\"M\",\"pid\":%llu,\"tid\":%u,\"name\":\"thread_sort_index\","
			 "\"args\":{\"sort_index\":%u}},\n",
			 (unsigned long long)pid, e->cta[0], e->cta[1], e->cta[2],
			 (unsigned long long)pid, tid, track, (unsigned long long)pid, tid, tid);
	add(t, line, (size_t)n);
}

/* Names that the viewer gives colours to; waits take them by what is waited for. */
static const char *color(const char *name)
{
	static const char *const colors[] = {"thread_state_iowait",
					     "rail_animation",
					     "thread_state_runnable",
					     "rail_load",
					     "terrible",
					     "rail_response",
					     "yellow",
					     "olive"};
	size_t length = strcspn(name, "[");

	return colors[tc_hash(name, length, 0) % (sizeof colors / sizeof *colors)];
}

void tc_trace_add(struct trace *t, const struct emu_trace_event *e)
{
	char line[512], name[200], track[200];
	uint64_t pid = 1 + e->cta[0] + ((uint64_t)e->cta[1] << 20) + ((uint64_t)e->cta[2] << 36);
	uint32_t tid = 1 + e->track_number;
	bool wait = !strcmp(e->kind, "wait");

	escape(name, sizeof name, e->name);
	escape(track, sizeof track, e->track);
	name_track(t, e, pid, tid, track);
	int n = snprintf(line, sizeof line,
			 "{\"ph\":\"X\",\"pid\":%llu,\"tid\":%u,\"ts\":%.4f,\"dur\":%.4f,\"cat\":"
			 "\"%s\",\"name\":\"%s\"%s%s%s},\n",
			 (unsigned long long)pid, tid, e->start, e->duration, e->kind, name,
			 wait ? ",\"cname\":\"" : "", wait ? color(e->name) : "", wait ? "\"" : "");
	add(t, line, (size_t)n);
}

static void collect(void *context, const struct emu_trace_event *e)
{
	tc_trace_add(context, e);
}

/* ---- runs -------------------------------------------------------------------------------------
 */

void tc_trace_free(struct trace *t)
{
	if (!t)
		return;
	free(t->text);
	free(t->tracks);
	free(t);
}

struct trace *tc_trace_new(void)
{
	return calloc(1, sizeof(struct trace));
}

void tc_trace_begin(lua_State *L, struct run *r)
{
	r->trace = tc_trace_new();
	if (!r->trace)
		tc_error(L, "not enough memory");
	r->options.trace = collect;
	r->options.trace_context = r->trace;
}

void tc_push_trace(lua_State *L, const struct trace *t)
{
	static const char beginning[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
	static const char cut[] = "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{"
				  "\"name\":\"the trace was cut: it is too long\"}}\n]}\n";
	static const char end[] =
		"{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"tcmma\"}}"
		"\n]}\n";
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	luaL_addlstring(&b, beginning, sizeof beginning - 1);
	luaL_addlstring(&b, t->text ? t->text : "", t->length);
	luaL_addstring(&b, t->cut ? cut : end);
	luaL_pushresult(&b);
}

const char tc_report_trace_doc[] =
	"trace(path: string) -> tcmma.report\n"
	"Writes what the run's roles and engines did, and what they waited for, as a trace that "
	"ui.perfetto.dev and chrome://tracing show: a process for each CTA, a track for each role "
	"(its first warp), for copies in, copies out and the tensor core. The time is emulated, by "
	"the costs of docs/performance.md; each cluster begins at 0. The run needs `trace = true`.";

int tc_report_trace(lua_State *L)
{
	size_t length;

	if (lua_type(L, 2) != LUA_TSTRING)
		return tc_argerror(L, 2, "a path is expected, got %s", tc_describe(L, 2));
	const char *path = lua_tostring(L, 2);
	if (lua_getfield(L, 1, "trace_text") != LUA_TSTRING)
		return tc_error(L, "this run kept no trace: emulate with the option trace = true");
	const char *text = lua_tolstring(L, -1, &length);
	tc_write_file(L, path, text, length);
	lua_settop(L, 1);
	return 1;
}
