/*
 * "Did you mean": the nearest of a list of words.
 */
#include "tc.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#define LONGEST_WORD 63

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) between two words, case ignored. */
static int edit_distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	int row[3][LONGEST_WORD + 1]; /* row i is row[i % 3] */

	if (n > LONGEST_WORD || m > LONGEST_WORD)
		return INT_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = (int)j;
	for (size_t i = 1; i <= n; i++) {
		int *older = row[(i + 1) % 3], *before = row[(i + 2) % 3], *now = row[i % 3];
		int last_a = i > 1 ? tolower((unsigned char)a[i - 2]) : 0;
		int letter_a = tolower((unsigned char)a[i - 1]);
		now[0] = (int)i;
		for (size_t j = 1; j <= m; j++) {
			int letter_b = tolower((unsigned char)b[j - 1]);
			int best = before[j - 1] + (letter_a != letter_b);
			best = least(best, least(before[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && letter_b == last_a &&
			    letter_a == tolower((unsigned char)b[j - 2]))
				best = least(best, older[j - 2] + 1);
			now[j] = best;
		}
	}
	return row[n % 3][m];
}

static bool contains(const char *text, const char *part)
{
	size_t length = strlen(part);

	for (; *text; text++)
		if (strncasecmp(text, part, length) == 0)
			return true;
	return false;
}

enum {
	SHORTEST_PART = 3,
	PART = 100,  /* a name with the word in it */
	WHOLE = 200, /* a name in the word */
	MOST = 16
};

/*
 * How unlike they are: edits, of which one is allowed and one more for every four letters; a name
 * that begins with the word counts as one.  Else by how much one is longer than the other, which
 * it contains; INT_MAX: not near.
 */
static int unlikeness(const char *word, const char *name)
{
	int edits = edit_distance(word, name), n = (int)strlen(word), m = (int)strlen(name);

	if (edits == INT_MAX)
		return INT_MAX;
	if (edits > 1 && n >= SHORTEST_PART && strncasecmp(word, name, (size_t)n) == 0)
		return 1;
	if (edits <= 1 + n / 4)
		return edits;
	if (n >= SHORTEST_PART && contains(name, word))
		return PART + m - n;
	if (m >= SHORTEST_PART && contains(word, name))
		return WHOLE + n - m;
	return INT_MAX;
}

/*
 * Of names that differ in letters only the nearest count; of names that contain the word, those
 * that are shortest.
 */
int tc_nearest_names(const char *word, const char *const *list, const char **near, int most)
{
	int count = 0, rank[MOST], best = INT_MAX;

	if (most > MOST)
		most = MOST;
	for (; *list; list++) {
		int r = unlikeness(word, *list), at;

		if (r == INT_MAX || r / PART > best / PART || (best < PART && r > best))
			continue;
		if (r / PART < best / PART || (r < PART && r < best))
			count = 0;
		best = least(best, r);
		for (at = count; at > 0 && rank[at - 1] > r; at--)
			if (at < most) {
				rank[at] = rank[at - 1];
				near[at] = near[at - 1];
			}
		if (at < most) {
			rank[at] = r;
			near[at] = *list;
			count += count < most;
		}
	}
	return count;
}

const char *tc_nearest(const char *word, const char *const *list)
{
	const char *near;

	return tc_nearest_names(word, list, &near, 1) ? near : NULL;
}
