/*
 * Assembled kernels on disk, one file a kernel, named by its content key.
 *
 * A file is written under another name and renamed, so that a reader sees all of it or nothing,
 * whatever other processes do.  It carries its key, size and a checksum; what does not fit is as
 * good as absent.  No trouble here is an error: at worst the kernel is assembled again.
 */
#include "dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct header {
	char magic[8];
	uint64_t key[2], size, checksum;
};

static const char magic[8] = "tcmma\n1\n";
#define CHECKSUM_SEED 0x7c3a1f0e5d2b4986u
#define MAX_FILE      ((uint64_t)1 << 30)

static bool cache_folder(char *out, size_t size)
{
	const char *given = tc_config_string(CONFIG_cache_dir);
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (!tc_config_boolean(CONFIG_cache))
		return false;
	if (given && *given)
		n = snprintf(out, size, "%s", given);
	else if (xdg && *xdg == '/')
		n = snprintf(out, size, "%s/tcmma", xdg);
	else if (home && *home == '/')
		n = snprintf(out, size, "%s/.cache/tcmma", home);
	else
		return false;
	return n > 0 && (size_t)n < size;
}

static bool file_name(char *out, size_t size, const char *folder, const uint64_t key[2])
{
	int n = snprintf(out, size, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key[0],
			 (unsigned long long)key[1]);
	return n > 0 && (size_t)n < size;
}

static bool make_folders(const char *path)
{
	char part[4096];
	size_t length = strlen(path);

	if (length >= sizeof part)
		return false;
	for (size_t i = 1; i <= length; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0700) && errno != EEXIST)
			return false;
	}
	return true;
}

static bool read_all(int fd, void *data, size_t size)
{
	char *p = data;

	while (size) {
		ssize_t n = read(fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = write(fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

static bool read_entry(int fd, const uint64_t key[2], struct strbuf *data)
{
	struct header h;
	struct stat st;

	if (!read_all(fd, &h, sizeof h) || memcmp(h.magic, magic, sizeof magic) ||
	    h.key[0] != key[0] || h.key[1] != key[1] || h.size > MAX_FILE || fstat(fd, &st) ||
	    (uint64_t)st.st_size != sizeof h + h.size)
		return false;
	char *text = malloc((size_t)h.size + 1);
	if (!text)
		return false;
	if (!read_all(fd, text, (size_t)h.size) ||
	    tc_hash(text, (size_t)h.size, CHECKSUM_SEED) != h.checksum) {
		free(text);
		return false;
	}
	text[h.size] = '\0';
	free(data->text);
	*data = (struct strbuf){
		.text = text, .length = (size_t)h.size, .capacity = (size_t)h.size + 1};
	return true;
}

bool tc_cache_get(uint64_t key[2], struct strbuf *data)
{
	char folder[4096], name[4160];

	if (!cache_folder(folder, sizeof folder) || !file_name(name, sizeof name, folder, key))
		return false;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool ok = read_entry(fd, key, data);
	close(fd);
	return ok;
}

void tc_cache_put(uint64_t key[2], const void *data, size_t size)
{
	char folder[4096], name[4160], temporary[4224];
	struct header h = {.key = {key[0], key[1]},
			   .size = size,
			   .checksum = tc_hash(data, size, CHECKSUM_SEED)};

	if (!cache_folder(folder, sizeof folder) || !file_name(name, sizeof name, folder, key) ||
	    !make_folders(folder))
		return;
	memcpy(h.magic, magic, sizeof magic);
	snprintf(temporary, sizeof temporary, "%s/.writing-XXXXXX", folder);
	int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return;
	bool ok = write_all(fd, &h, sizeof h) && write_all(fd, data, size);
	if (close(fd) || !ok || rename(temporary, name))
		unlink(temporary);
}
