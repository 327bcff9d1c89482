/* Where instructions come from: .file, .loc, and the sections that name inlined functions. */
#include "ptx.h"

#define MAX_POSITIONS (1u << 20)
#define MAX_LABEL     60 /* bytes of a name in a message */

/* ---- numbers by other numbers ------------------------------------------------------------- */

/* Parts of the key of a position, numbered from 1 in the order of the text. */
struct numbered {
	uint64_t number;
	uint32_t index;
	uint32_t latest; /* of a place: the position that was there last */
};

/* In the index of what has `first` and `second`. */
static struct numbered *at(struct ptx_parser *parser, struct emu_index *index, uint32_t first,
			   uint32_t second)
{
	struct numbered *item = emu_index_at(index, (uint64_t)first << 32 | second, sizeof *item);

	if (!item)
		ptx_fail(parser, parser->token.line, "the module needs too much memory");
	return item;
}

/* The place of a file, line and column, in whatever function. */
static struct numbered *place_of(struct ptx_parser *parser, const uint32_t numbers[3])
{
	struct ptx_sources *sources = &parser->sources;
	struct numbered *line = at(parser, &sources->lines, numbers[0], numbers[1]);

	if (!line)
		return NULL;
	if (!line->index)
		line->index = sources->lines.count;
	struct numbered *place = at(parser, &sources->places, line->index, numbers[2]);

	if (place && !place->index)
		place->index = sources->places.count;
	return place;
}

/* ---- files -------------------------------------------------------------------------------- */

struct file {
	uint64_t number;
	const char *name; /* NULL: no .file yet, which may stand behind its .loc */
};

static struct file *file_at(struct ptx_parser *parser, uint32_t number)
{
	struct file *file = emu_index_at(&parser->sources.files, number, sizeof *file);

	if (!file)
		ptx_fail(parser, parser->token.line, "the module needs too much memory");
	return file;
}

static bool is_number(const struct ptx_parser *parser)
{
	return parser->token.kind == PTX_INTEGER || ptx_is(parser, "WARP_SZ");
}

/* Neither signs nor expressions stand in .file and .loc. */
static bool number(struct ptx_parser *parser, uint32_t *value)
{
	int line = parser->token.line;
	int64_t wide = 0;
	char buffer[80];

	if (!is_number(parser))
		return ptx_fail(parser, line, "expected a number without a sign, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	wide = parser->token.kind == PTX_INTEGER ? (int64_t)parser->token.value : EMU_LANES;
	ptx_next(parser);
	*value = (uint32_t)wide;
	return (uint64_t)wide <= UINT32_MAX ? !parser->failed
					    : ptx_fail(parser, line, "a number of 32 bits at most");
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Names of files are written with the escapes of C: \\, \n, \303\274. */
static char *unescape(char *name)
{
	static const char escapes[] = "n\nt\tr\r\\\\";
	char *to = name;

	for (const char *from = name; *from;) {
		const char *found = *from == '\\' && from[1] ? strchr(escapes, from[1]) : NULL;

		if (found && (found - escapes) % 2 == 0) {
			*to++ = found[1];
			from += 2;
		} else if (*from == '\\' && is_octal(from[1]) && is_octal(from[2]) &&
			   is_octal(from[3])) {
			*to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 |
				       (from[3] - '0'));
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
	return name;
}

/* .file number "name" [, time [, size]] */
bool ptx_file(struct ptx_parser *parser)
{
	int line = parser->token.line;
	uint32_t index = 0;
	char buffer[80], *name;

	if (!number(parser, &index))
		return false;
	if (parser->token.kind != PTX_STRING)
		return ptx_fail(parser, parser->token.line,
				".file needs a number and a name in quotes, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	struct file *file = file_at(parser, index);

	if (!file)
		return false;
	if (file->name)
		return ptx_fail(parser, line, "there are two .file of number %u", index);
	name = ptx_keep_text(parser, parser->token.text, parser->token.length);
	if (!name)
		return false;
	file->name = unescape(name);
	ptx_next(parser);
	for (int i = 0; i < 2 && ptx_accept(parser, ","); i++) {
		if (!is_number(parser))
			return ptx_fail(parser, parser->token.line,
					"expected the time or the size of a file, found %s",
					ptx_quote(&parser->token, buffer, sizeof buffer));
		ptx_next(parser);
	}
	return !parser->failed;
}

/* ---- labels of sections ------------------------------------------------------------------- */

/* Of the text; some are used before they are defined. */
struct label {
	const char *name;
	size_t length;
	int line; /* of the first use */
	bool defined;
	struct label *chain; /* same hash */
	struct label *next;
};

struct labels {
	uint64_t hash;
	struct label *first;
};

static struct label *label_of(struct ptx_parser *parser, const struct ptx_token *name)
{
	struct ptx_sources *sources = &parser->sources;
	struct labels *labels =
		emu_index_at(&sources->labels, ptx_hash(name->text, name->length), sizeof *labels);
	struct label *label = labels ? labels->first : NULL;

	while (label && (label->length != name->length ||
			 memcmp(label->name, name->text, name->length) != 0))
		label = label->chain;
	if (label)
		return label;
	label = ptx_scratch(parser, sizeof *label);
	if (!label || !labels) {
		ptx_fail(parser, name->line, "the module needs too much memory");
		return NULL;
	}
	*label = (struct label){.name = name->text,
				.length = name->length,
				.line = name->line,
				.chain = labels->first,
				.next = sources->all_labels};
	labels->first = label;
	sources->all_labels = label;
	return label;
}

static bool define_label(struct ptx_parser *parser, const struct ptx_token *name)
{
	struct label *label = label_of(parser, name);
	char buffer[80];

	if (!label)
		return false;
	if (label->defined)
		return ptx_fail(parser, name->line, "label %s is defined twice",
				ptx_quote(name, buffer, sizeof buffer));
	label->defined = true;
	return ptx_expect(parser, ":");
}

/* ---- .loc --------------------------------------------------------------------------------- */

/* What the module keeps is `shown`; its file is named when all of the text is known. */
struct position {
	struct emu_position shown;
	struct file *file;
};

static struct position *position_at(const struct ptx_parser *parser, uint32_t index)
{
	return (struct position *)parser->module->positions[index];
}

/* Index 0 of the list means no position. */
static bool reserve(struct ptx_parser *parser)
{
	struct emu_module *module = parser->module;
	uint32_t room = module->position_count ? module->position_count * 2 : 64;

	if (module->position_count > MAX_POSITIONS)
		return ptx_fail(parser, parser->token.line, "more than %u positions in sources",
				MAX_POSITIONS);
	/* Full at each power of two from 64 on. */
	if (module->position_count && (module->position_count < 64 ||
				       (module->position_count & (module->position_count - 1))))
		return true;
	const struct emu_position **positions = ptx_keep(parser, room * sizeof *positions);

	if (!positions)
		return false;
	if (module->position_count)
		memcpy(positions, module->positions, module->position_count * sizeof *positions);
	else
		module->position_count = 1;
	module->positions = positions;
	return true;
}

/* The one of this place inlined at that position; the same for every .loc that says so. */
static bool set_position(struct ptx_parser *parser, const uint32_t numbers[3], uint32_t inlined_at)
{
	struct emu_module *module = parser->module;
	struct numbered *place = place_of(parser, numbers);
	struct numbered *known =
		place ? at(parser, &parser->sources.positions, place->index, inlined_at) : NULL;
	struct file *file = known ? file_at(parser, numbers[0]) : NULL;

	if (!file)
		return false;
	if (!known->index) {
		struct position *position =
			reserve(parser) ? ptx_keep(parser, sizeof *position) : NULL;

		if (!position)
			return false;
		position->file = file;
		position->shown.line = numbers[1];
		if (inlined_at)
			position->shown.inlined_at = module->positions[inlined_at];
		known->index = module->position_count;
		module->positions[module->position_count++] = &position->shown;
	}
	place->latest = known->index;
	parser->source = known->index;
	return true;
}

/* A label of a section, or the section of all names; + number */
static bool function_name(struct ptx_parser *parser)
{
	struct ptx_token name = parser->token;
	char buffer[80];

	if (!ptx_accept(parser, ".debug_str")) {
		if (name.kind != PTX_WORD && name.kind != PTX_DIRECTIVE)
			return ptx_fail(parser, name.line, "expected a label, found %s",
					ptx_quote(&name, buffer, sizeof buffer));
		if (!label_of(parser, &name))
			return false;
		ptx_next(parser);
	}
	if (!ptx_accept(parser, "+"))
		return !parser->failed;
	if (!is_number(parser))
		return ptx_fail(parser, parser->token.line, "expected a number, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	ptx_next(parser);
	return !parser->failed;
}

static bool three(struct ptx_parser *parser, uint32_t numbers[3])
{
	for (int i = 0; i < 3; i++)
		if (!number(parser, &numbers[i]))
			return false;
	return true;
}

/* .loc file line column [, function_name label [+ number], inlined_at file line column] */
bool ptx_location(struct ptx_parser *parser)
{
	int line = parser->token.line;
	uint32_t numbers[3], caller[3];
	struct numbered *place;

	if (!three(parser, numbers))
		return false;
	if (!ptx_accept(parser, ","))
		return set_position(parser, numbers, 0);
	if (!ptx_expect(parser, "function_name") || !function_name(parser) ||
	    !ptx_expect(parser, ",") || !ptx_expect(parser, "inlined_at") || !three(parser, caller))
		return false;
	place = place_of(parser, caller);
	if (!place)
		return false;
	if (!place->latest)
		return ptx_fail(parser, line,
				"inlined_at %u %u %u is the position of no .loc before this one",
				caller[0], caller[1], caller[2]);
	return set_position(parser, numbers, place->latest);
}

/* ---- sections ----------------------------------------------------------------------------- */

/* One of a list of bytes or half words, which have a range; words are cut. */
static bool datum(struct ptx_parser *parser, int bits)
{
	int line = parser->token.line;
	bool negative = ptx_accept(parser, "-");
	uint64_t value = parser->token.value;
	char buffer[80];

	if (parser->token.kind != PTX_INTEGER)
		return ptx_fail(parser, line, "expected a number, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	if (bits < 32 && value > (negative ? 1ull << (bits - 1) : (1ull << bits) - 1))
		return ptx_fail(parser, line, "a number that does not fit .b%d", bits);
	ptx_next(parser);
	return !parser->failed;
}

/* Behind .b32 or .b64: label, label + number, label - label; a section is a label. */
static bool address(struct ptx_parser *parser)
{
	char buffer[80];

	ptx_next(parser);
	if (ptx_accept(parser, "+"))
		return datum(parser, 64);
	if (!ptx_accept(parser, "-"))
		return !parser->failed;
	if (parser->token.kind != PTX_WORD && parser->token.kind != PTX_DIRECTIVE)
		return ptx_fail(parser, parser->token.line, "expected a label, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	ptx_next(parser);
	return !parser->failed;
}

/* Of the type that the token names, 0 if it names none. */
static int data_bits(const struct ptx_parser *parser)
{
	static const struct {
		const char *name;
		int bits;
	} types[] = {{".b8", 8}, {".b16", 16}, {".b32", 32}, {".b64", 64}};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (ptx_is(parser, types[i].name))
			return types[i].bits;
	return 0;
}

static bool data(struct ptx_parser *parser)
{
	int bits = data_bits(parser);
	char buffer[80];

	if (!bits)
		return ptx_fail(parser, parser->token.line,
				"expected .b8, .b16, .b32, .b64 or a label of a section, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	ptx_next(parser);
	if (bits >= 32 && (parser->token.kind == PTX_WORD || parser->token.kind == PTX_DIRECTIVE))
		return address(parser);
	do
		if (!datum(parser, bits))
			return false;
	while (ptx_accept(parser, ","));
	return !parser->failed;
}

/* .section .debug_str { label: .b8 ... } */
bool ptx_section(struct ptx_parser *parser)
{
	int line = parser->token.line;
	char buffer[80];

	if (parser->token.kind != PTX_DIRECTIVE)
		return ptx_fail(parser, line, "expected the name of a section, found %s",
				ptx_quote(&parser->token, buffer, sizeof buffer));
	ptx_next(parser);
	if (!ptx_expect(parser, "{"))
		return false;
	while (!ptx_is(parser, "}")) {
		struct ptx_token token = parser->token;

		if (token.kind == PTX_END)
			return ptx_fail(parser, line, "section without end");
		if (token.kind != PTX_WORD) {
			if (!data(parser))
				return false;
			continue;
		}
		ptx_next(parser);
		if (!define_label(parser, &token))
			return false;
	}
	return ptx_expect(parser, "}");
}

/* ---- the whole text is known -------------------------------------------------------------- */

/* The nearest one with a line: compilers give line 0 to what is of none. */
static const struct emu_position *known_position(const struct emu_position *position)
{
	while (position && !position->file)
		position = position->inlined_at;
	return position;
}

bool ptx_sources_finish(struct ptx_parser *parser)
{
	const struct emu_module *module = parser->module;
	char buffer[MAX_LABEL + 20];

	for (const struct label *l = parser->sources.all_labels; l; l = l->next) {
		struct ptx_token name = {
			.kind = PTX_WORD, .text = l->name, .length = l->length, .line = l->line};

		if (!l->defined)
			return ptx_fail(parser, l->line,
					"function_name %s is a label of no section",
					ptx_quote(&name, buffer, sizeof buffer));
	}
	/* Callers stand in front. */
	for (uint32_t i = 1; i < module->position_count; i++) {
		struct position *position = position_at(parser, i);

		position->shown.file = position->shown.line ? position->file->name : NULL;
		position->shown.inlined_at = known_position(position->shown.inlined_at);
		if (!position->shown.file && position->shown.inlined_at)
			position->shown = *position->shown.inlined_at;
	}
	return true;
}

void ptx_sources_free(struct ptx_parser *parser)
{
	struct ptx_sources *sources = &parser->sources;

	emu_index_free(&sources->files);
	emu_index_free(&sources->lines);
	emu_index_free(&sources->places);
	emu_index_free(&sources->positions);
	emu_index_free(&sources->labels);
}
