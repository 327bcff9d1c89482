/*
 * The assembler as a program of the toolkit.  It takes a text for all there is; nvJitLink compiles
 * each of its inputs for separate linking, where setmaxnreg has no effect (message C7504), and an
 * extern shared array begins at the next 16 bytes behind the static ones, whatever its alignment.
 */
#include "dev.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The word that ends before `at`, and spaces, is `word`. */
static bool follows(const char *text, const char *at, const char *word)
{
	size_t length = strlen(word);

	while (at > text && is_space(at[-1]))
		at--;
	return (size_t)(at - text) >= length && strncmp(at - length, word, length) == 0;
}

int tc_shared_tail_alignment(const char *ptx)
{
	static const char space[] = ".shared", align[] = ".align";
	int alignment = 0;
	bool fixed = false;

	/* Of ld.shared and the like no space stands in front; .ptr is of a parameter. */
	for (const char *at = ptx; (at = strstr(at, space)) != NULL;) {
		const char *word = at;

		at += sizeof space - 1;
		if (word == ptx || !is_space(word[-1]) || !is_space(*at) ||
		    follows(ptx, word, ".ptr"))
			continue;
		if (!follows(ptx, word, ".extern")) {
			fixed = true;
			continue;
		}
		at += strspn(at, " \t\r\n");
		if (strncmp(at, align, sizeof align - 1) == 0) {
			int n = atoi(at + sizeof align - 1);

			alignment = n > alignment ? n : alignment;
		}
	}
	return fixed && alignment > 16 ? alignment : 0;
}

bool tc_needs_whole_program(const char *ptx)
{
	return strstr(ptx, "setmaxnreg") != NULL || tc_shared_tail_alignment(ptx);
}

/* ---- which one ------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* "ptxas 13.0.88" from its "... release 13.0, V13.0.88". */
static void ask_version(const char *path, char *text, size_t size)
{
	const char *const argv[] = {path, "--version", NULL};
	struct strbuf output = {0};
	const char *version = NULL;

	if (tc_tool_run(argv, &output) && (version = strstr(output.text, ", V")))
		snprintf(text, size, "ptxas %.*s", (int)strcspn(version + 3, " \r\n"), version + 3);
	free(output.text);
}

/* Its version, and its path; both stay valid.  NULL: there is none. */
static const char *find(const char **path)
{
	static char asked[4096], version[48];
	char found[4096];

	if (!tc_tool_find("ptxas", found, sizeof found))
		return NULL;
	pthread_mutex_lock(&mutex);
	if (strcmp(asked, found)) {
		memcpy(asked, found, sizeof asked);
		version[0] = '\0';
		ask_version(found, version, sizeof version);
	}
	pthread_mutex_unlock(&mutex);
	*path = asked;
	return version[0] ? version : NULL;
}

const char *tc_ptxas_version(void)
{
	const char *path;

	return find(&path);
}

/* ---- assembling ------------------------------------------------------------------------------ */

static bool write_text(const char *name, const char *text, size_t length)
{
	FILE *f = fopen(name, "wxe");

	if (!f)
		return false;
	bool ok = fwrite(text, 1, length, f) == length;
	return !fclose(f) && ok;
}

static bool read_file(const char *name, struct strbuf *data)
{
	FILE *f = fopen(name, "re");
	long size = -1;

	if (!f)
		return false;
	if (!fseek(f, 0, SEEK_END))
		size = ftell(f);
	rewind(f);
	char *text = size > 0 ? malloc((size_t)size + 1) : NULL;
	bool ok = text && fread(text, 1, (size_t)size, f) == (size_t)size;
	fclose(f);
	if (!ok) {
		free(text);
		return false;
	}
	text[size] = '\0';
	free(data->text);
	*data = (struct strbuf){.text = text, .length = (size_t)size, .capacity = (size_t)size + 1};
	return true;
}

bool tc_ptxas(const char *ptx, size_t length, const char *target, struct strbuf *cubin,
	      struct strbuf *log)
{
	const char *path, *temporary = getenv("TMPDIR");
	char folder[4096], text[4160], code[4160], arch[64];

	if (!find(&path))
		return false;
	snprintf(folder, sizeof folder, "%s/tcmma-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(folder))
		return false;
	snprintf(text, sizeof text, "%s/kernel.ptx", folder);
	snprintf(code, sizeof code, "%s/kernel.cubin", folder);
	snprintf(arch, sizeof arch, "-arch=%s", target);
	const char *const argv[] = {path, arch, "-v", "-o", code, text, NULL};
	bool ok = write_text(text, ptx, length) && tc_tool_run(argv, log) && read_file(code, cubin);
	unlink(text);
	unlink(code);
	rmdir(folder);
	return ok;
}
