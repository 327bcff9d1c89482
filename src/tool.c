/* Programs of the CUDA toolkit: found where its libraries are looked for, run without a shell. */
#include "dev.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct search {
	const char *name;
	char *path;
	size_t size;
};

static bool try_folder(void *arg, const char *folder)
{
	struct search *s = arg;
	int n = snprintf(s->path, s->size, "%s/%s", folder, s->name);

	return n > 0 && (size_t)n < s->size && !access(s->path, X_OK);
}

static bool try_home(struct search *s, const char *home)
{
	char folder[4096];

	if (!home || !*home)
		return false;
	snprintf(folder, sizeof folder, "%s/bin", home);
	return try_folder(s, folder);
}

static bool try_path(struct search *s)
{
	char folder[4096];

	for (const char *path = getenv("PATH"); path && *path;) {
		size_t n = strcspn(path, ":");

		snprintf(folder, sizeof folder, "%.*s", (int)n, path);
		if (n && try_folder(s, folder))
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

bool tc_tool_find(const char *name, char *path, size_t size)
{
	struct search s = {name, path, size};
	const char *home = tc_config_string(CONFIG_cuda_home);

	/* As of libraries, the folder that is named is the only one. */
	if (home && *home)
		return try_home(&s, home);
	return try_home(&s, getenv("CUDA_HOME")) || try_home(&s, getenv("CUDA_PATH")) ||
	       try_path(&s) || try_home(&s, "/usr/local/cuda") ||
	       tc_dl_python_folders("bin", try_folder, &s);
}

/* All that comes through the pipe; false when there is no memory for it. */
static bool collect(int fd, struct strbuf *output)
{
	for (;;) {
		if (output->capacity - output->length < 4096) {
			size_t capacity = 2 * output->capacity + 65536;
			char *grown = realloc(output->text, capacity);

			if (!grown)
				return false;
			output->text = grown;
			output->capacity = capacity;
		}
		ssize_t n = read(fd, output->text + output->length,
				 output->capacity - output->length - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		output->length += (size_t)n;
	}
	output->text[output->length] = '\0';
	return true;
}

/* The pipe's other end is the program's standard output and error. */
static bool spawn(pid_t *child, const char *const argv[], int out)
{
	posix_spawn_file_actions_t actions;

	if (posix_spawn_file_actions_init(&actions))
		return false;
	bool ok = !posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) &&
		  !posix_spawn_file_actions_adddup2(&actions, out, 1) &&
		  !posix_spawn_file_actions_adddup2(&actions, out, 2) &&
		  !posix_spawn(child, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return ok;
}

bool tc_tool_run(const char *const argv[], struct strbuf *output)
{
	int end[2], status = -1;
	pid_t child;

	if (pipe2(end, O_CLOEXEC))
		return false;
	bool started = spawn(&child, argv, end[1]);
	close(end[1]);
	bool ok = started && collect(end[0], output);
	close(end[0]);
	while (started && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
