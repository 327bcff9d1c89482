/*
 * "Did you mean": the nearest of a list of words.
 */
#include "tc.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

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

/* At most one edit, and one more for every four letters. */
const char *tc_nearest(const char *word, const char *const *list)
{
	const char *nearest = NULL;
	int best = 1 + (int)strlen(word) / 4;

	for (; *list; list++) {
		int distance = edit_distance(word, *list);
		if (distance <= best && (!nearest || distance < best)) {
			best = distance;
			nearest = *list;
		}
	}
	return nearest;
}
