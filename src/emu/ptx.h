/* Reading PTX text: tokens, scopes and the parser's state.  Nothing outlives the load. */
#ifndef TCMMA_EMU_PTX_H
#define TCMMA_EMU_PTX_H

#include "index.h"
#include "machine.h"

#define PTX_MAX_TEXT         (64u << 20)
#define PTX_MAX_INSTRUCTIONS (1u << 20)
#define PTX_MAX_REGISTERS    (1u << 20)
#define PTX_MAX_VECTOR       256
#define PTX_MAX_DEPTH        64

enum ptx_token_kind {
	PTX_END,
	PTX_WORD,      /* name or mnemonic, with its dots: add.s32, %tid.x */
	PTX_DIRECTIVE, /* .reg, .b32 */
	PTX_INTEGER,
	PTX_FLOAT32, /* 0f3f800000: value holds the 32 bits */
	PTX_FLOAT64, /* 0d..., 1.5: value holds the 64 bits */
	PTX_STRING,
	PTX_MARK /* one character of punctuation: text[0] */
};

struct ptx_token {
	enum ptx_token_kind kind;
	const char *text;
	size_t length;
	uint64_t value;
	int line;
};

struct ptx_lexer {
	const char *at, *end;
	int line;
};

enum ptx_symbol_kind {
	PTX_REGISTER,
	PTX_REGISTERS, /* name<count>: name0 ... */
	PTX_VARIABLE,
	PTX_FUNCTION,
	PTX_TABLE
};

struct ptx_symbol {
	const char *name;
	size_t length;
	uint32_t hash;
	enum ptx_symbol_kind kind;
	uint32_t reg, count;
	enum emu_type type;
	struct emu_variable *variable;
	struct emu_function *function;
	struct emu_table *table;
	struct ptx_symbol *chain; /* same bucket, older */
	struct ptx_symbol *scope_next;
};

struct ptx_scope {
	struct ptx_scope *parent;
	struct ptx_symbol *symbols;
	struct ptx_label *labels;
};

struct ptx_label {
	const char *name;
	size_t length;
	uint32_t pc;
	struct ptx_label *next, *chain;
	struct ptx_scope *scope;
	uint32_t hash;
};

/* A use of a label, resolved at the end of the function. */
struct ptx_reference {
	const char *name;
	size_t length;
	int line;
	struct ptx_scope *scope;
	struct emu_operand *operand; /* or ... */
	uint32_t *pc;
	struct ptx_reference *next;
};

/* What is known of sources, by number; parse_source.c has the items. */
struct ptx_sources {
	struct emu_index files;
	struct emu_index lines, places, positions; /* of .loc */
	struct emu_index labels;                   /* of sections */
	struct label *all_labels;
};

#define PTX_BUCKETS 4096

struct ptx_parser {
	struct ptx_lexer lexer;
	struct ptx_token token; /* the next one */
	bool failed;
	struct emu_error *error;
	struct emu_module *module;
	struct emu_arena scratch; /* scopes, labels, references */
	struct ptx_scope *scope;  /* NULL outside functions: the module's */
	struct ptx_scope module_scope;
	struct ptx_symbol *buckets[PTX_BUCKETS];
	struct ptx_label *label_buckets[PTX_BUCKETS];
	struct ptx_reference *references;
	struct ptx_reference *references_before; /* those of earlier instructions */
	struct emu_function *function;
	uint32_t register_room;
	uint32_t source; /* index of the last .loc */
	struct ptx_sources sources;
	int depth;
	bool video; /* registers may have selectors and a sign */
};

bool ptx_fail(struct ptx_parser *parser, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* lexer */
void ptx_next(struct ptx_parser *parser);
uint32_t ptx_hash(const char *text, size_t length);

/* small steps of the parser; all return false after an error */
bool ptx_is(const struct ptx_parser *parser, const char *text);
bool ptx_accept(struct ptx_parser *parser, const char *text);
bool ptx_expect(struct ptx_parser *parser, const char *text);
bool ptx_constant(struct ptx_parser *parser, int64_t *value);
void *ptx_keep(struct ptx_parser *parser, size_t size);    /* as long as the module */
void *ptx_scratch(struct ptx_parser *parser, size_t size); /* as long as the load */
char *ptx_keep_text(struct ptx_parser *parser, const char *text, size_t length);
const char *ptx_quote(const struct ptx_token *token, char *buffer, size_t size);

/* symbols */
struct ptx_symbol *ptx_declare(struct ptx_parser *parser, const char *name, size_t length,
			       enum ptx_symbol_kind kind);
struct ptx_symbol *ptx_lookup(struct ptx_parser *parser, const char *name, size_t length,
			      uint32_t *index);
bool ptx_scope_open(struct ptx_parser *parser);
void ptx_scope_close(struct ptx_parser *parser);
bool ptx_label_add(struct ptx_parser *parser, const char *name, size_t length);
bool ptx_label_refer(struct ptx_parser *parser, const struct ptx_token *name,
		     struct emu_operand *operand, uint32_t *pc);
bool ptx_labels_resolve(struct ptx_parser *parser);
uint32_t ptx_new_register(struct ptx_parser *parser, enum emu_type type, uint32_t count);

/* variables and data */
bool ptx_variables(struct ptx_parser *parser, enum emu_space space, bool external);
struct emu_variable *ptx_parameter(struct ptx_parser *parser, enum emu_space space);

/* functions */
bool ptx_function(struct ptx_parser *parser, bool entry, bool external);
bool ptx_body(struct ptx_parser *parser);
bool ptx_instruction(struct ptx_parser *parser);
bool ptx_operand(struct ptx_parser *parser, struct emu_operand *operand);
struct emu_ins *ptx_emit(struct ptx_parser *parser);

/* sources */
bool ptx_file(struct ptx_parser *parser);
bool ptx_location(struct ptx_parser *parser);
bool ptx_section(struct ptx_parser *parser);
/* At the end of the text: a .loc may name a file and a label that follow. */
bool ptx_sources_finish(struct ptx_parser *parser);
void ptx_sources_free(struct ptx_parser *parser);

/* behind the parser: module.c drives them for every function with a body */
bool emu_decode_function(struct emu_module *module, struct emu_function *function,
			 struct emu_error *error);
bool emu_flow_function(struct emu_function *function, struct emu_error *error);
bool emu_slots_function(struct emu_function *function, struct emu_error *error);

/* Marks what touches a register that may be tainted, from those given, by register, on. */
void emu_taint_mark(struct emu_function *function, uint8_t *tainted);
/* Marks what touches registers of EMU_I_PENDING_WGMMA and EMU_I_PENDING_TMEM; `touched` is zero, by
   register. */
void emu_pending_mark(struct emu_function *function, uint8_t *touched);

#endif
