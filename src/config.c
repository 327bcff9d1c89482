/* Settings: environment variables read once, changed from Lua; one table for the whole process. */
#include "dev.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct config_info tc_config_infos[CONFIG_COUNT] = {
#define CONFIG(id, variable, type, standard, doc) {#id, variable, type, standard, doc},
#include "config.def"
};

/*
 * Values are never freed while the process runs: a pointer that was handed out stays good
 * when another thread sets the field.
 */
struct value {
	struct value *previous;
	bool set;
	char text[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct value *values[CONFIG_COUNT];

static bool parse_integer(const char *text, int64_t *out)
{
	char *end;

	errno = 0;
	long long n = strtoll(text, &end, 10);
	while (*end == ' ')
		end++;
	if (end == text || *end || errno || n < 0)
		return false;
	*out = n;
	return true;
}

static int parse_boolean(const char *text)
{
	static const char *const yes[] = {"1", "true", "yes", "on"};
	static const char *const no[] = {"0", "false", "no", "off"};

	for (int i = 0; i < 4; i++) {
		if (!strcmp(text, yes[i]))
			return 1;
		if (!strcmp(text, no[i]))
			return 0;
	}
	return -1;
}

bool tc_config_acceptable(enum config c, const char *text)
{
	int64_t n;

	if (c == CONFIG_emulator_mode)
		return !strcmp(text, "fast") || !strcmp(text, "check") || !strcmp(text, "random");
	switch (tc_config_infos[c].type) {
	case 'b':
		return parse_boolean(text) >= 0;
	case 'i':
		return parse_integer(text, &n);
	default:
		return true;
	}
}

static void push(enum config c, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 1;
	struct value *v = malloc(sizeof *v + size);

	if (!v)
		return;
	v->set = text != NULL;
	memcpy(v->text, text ? text : "", size);
	v->previous = values[c];
	values[c] = v;
}

/* A misspelt variable would be ignored. */
static void warn_of_unknown(void)
{
	static const char prefix[] = "TCMMA_";
	const char *names[CONFIG_COUNT + 1] = {0};
	char name[64];

	for (int c = 0; c < CONFIG_COUNT; c++)
		names[c] = tc_config_infos[c].variable;
	for (char **v = environ; v && *v; v++) {
		size_t length = strcspn(*v, "=");
		bool known = strncmp(*v, prefix, sizeof prefix - 1) != 0 || length >= sizeof name;

		snprintf(name, sizeof name, "%.*s", (int)length, *v);
		for (int c = 0; c < CONFIG_COUNT && !known; c++)
			known = !strcmp(name, names[c]);
		if (known)
			continue;
		const char *near = tc_nearest(name, names);
		fprintf(stderr,
			"tcmma: warning: the environment variable %s is none of tcmma's%s%s%s\n",
			name, near ? " (did you mean " : "; tc.settings() lists them",
			near ? near : "", near ? "?)" : "");
	}
}

/* An empty variable counts as not set; one that is no value of its type is refused at require. */
static void read_environment(void)
{
	for (int c = 0; c < CONFIG_COUNT; c++) {
		const char *text = getenv(tc_config_infos[c].variable);
		if (text && *text && tc_config_acceptable(c, text))
			push(c, text);
	}
	warn_of_unknown();
}

const char *tc_config_string(enum config c)
{
	pthread_once(&once, read_environment);
	pthread_mutex_lock(&mutex);
	const struct value *v = values[c];
	pthread_mutex_unlock(&mutex);
	return v && v->set ? v->text : tc_config_infos[c].standard;
}

bool tc_config_boolean(enum config c)
{
	const char *text = tc_config_string(c);
	return text && parse_boolean(text) == 1;
}

int64_t tc_config_integer(enum config c)
{
	const char *text = tc_config_string(c);
	int64_t n = 0;

	if (text)
		parse_integer(text, &n);
	return n;
}

bool tc_config_set(enum config c, const char *value)
{
	if (value && !tc_config_acceptable(c, value))
		return false;
	pthread_once(&once, read_environment);
	pthread_mutex_lock(&mutex);
	push(c, value);
	pthread_mutex_unlock(&mutex);
	return true;
}

/* At exit, or when the module is unloaded with the last state that uses it. */
__attribute__((destructor)) static void forget(void)
{
	for (int c = 0; c < CONFIG_COUNT; c++) {
		while (values[c]) {
			struct value *previous = values[c]->previous;
			free(values[c]);
			values[c] = previous;
		}
	}
}
