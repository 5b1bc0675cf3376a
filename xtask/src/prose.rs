//! What a crate says to its users: its string literals and the help of its flags, in reading order, so that a person can read them
//! in one go.
//!
//! Left out are tests; names for serde and other attributes, but for help (of clap) and error texts (of thiserror); patterns, which
//! compare; what only a defect prints (`expect`, `panic!`, assertions); macros that name files or variables; and literals
//! without a letter. Format strings are printed as they are, each on one line.

use crate::house;
use anyhow::{Context, ensure};
use proc_macro2::{LineColumn, Span, TokenStream, TokenTree};
use std::io::{self, Write};
use syn::visit::{self, Visit};

/// Whose texts to print.
#[derive(clap::Args)]
pub struct Flags {
    /// A crate, by its folder in crates/
    #[arg(value_name = "CRATE")]
    name: String,
}

/// clap's derived traits: the doc comments of what has one are help.
const WITH_HELP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// Attributes of clap, and what in them is printed as it is.
const CLAP: [&str; 4] = ["arg", "clap", "command", "value"];
const PRINTED: [&str; 11] = [
    "about",
    "after_help",
    "after_long_help",
    "before_help",
    "help",
    "help_heading",
    "long_about",
    "long_help",
    "next_help_heading",
    "override_usage",
    "value_name",
];

/// Macros whose texts no user sees, unless there is a defect.
const UNSEEN: [&str; 14] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "cfg",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "env",
    "include",
    "include_bytes",
    "include_str",
    "option_env",
    "panic",
    "unreachable",
];

/// Prints the texts of a crate.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let name = flags.name.strip_prefix("exitscope-").unwrap_or(&flags.name);
    let files = house::files_of_crate(name)?;
    ensure!(!files.is_empty(), "crates/{name} has no sources");
    let mut out = io::stdout().lock();
    for (file, text) in files {
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        for (line, text) in texts(&parsed) {
            writeln!(out, "{}:{line}: {text}", file.display())?;
        }
    }
    Ok(())
}

/// The texts of a file, with their lines.
fn texts(file: &syn::File) -> Vec<(usize, String)> {
    let mut reader = TextReader::default();
    reader.visit_file(file);
    reader.found.sort_by_key(|(at, _)| (at.line, at.column));
    reader.found.into_iter().map(|(at, text)| (at.line, text)).collect()
}

#[derive(Default)]
struct TextReader {
    found: Vec<(LineColumn, String)>,
    /// Whether doc comments are help here.
    has_help: bool,
}

impl TextReader {
    fn note(&mut self, at: Span, text: &str) {
        if text.contains(char::is_alphabetic) {
            self.found.push((at.start(), text.replace('\n', "\\n")));
        }
    }

    /// Literals among tokens, but not those of attributes.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut before_attribute = false;
        let mut before_unseen = None;
        for token in tokens {
            let is_attribute = std::mem::take(&mut before_attribute);
            match token {
                TokenTree::Literal(literal) => {
                    if let Ok(literal) = syn::parse2::<syn::LitStr>(TokenTree::Literal(literal).into()) {
                        self.note(literal.span(), &literal.value());
                    }
                }
                TokenTree::Group(group) => {
                    let is_unseen = before_unseen == Some(Unseen::Whole);
                    if !is_attribute && !is_unseen {
                        self.note_tokens(group.stream());
                    }
                    before_unseen = None;
                }
                TokenTree::Punct(punct) => {
                    before_attribute = punct.as_char() == '#';
                    before_unseen = match before_unseen {
                        Some(Unseen::Name) if punct.as_char() == '!' => Some(Unseen::Whole),
                        _ => None,
                    };
                }
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    before_unseen = match name.as_str() {
                        "expect" => Some(Unseen::Whole),
                        name if UNSEEN.contains(&name) => Some(Unseen::Name),
                        _ => None,
                    };
                }
            }
        }
    }

    /// The doc comment of what has these attributes, as one text.
    fn note_help(&mut self, attributes: &[syn::Attribute]) {
        if !self.has_help {
            return;
        }
        let mut lines = Vec::new();
        let mut first = None;
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
            let syn::Meta::NameValue(pair) = &attribute.meta else { continue };
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) = &pair.value else { continue };
            first = first.or(Some(line.span()));
            lines.push(line.value().trim().to_string());
        }
        if let Some(first) = first {
            // A blank line begins a paragraph.
            let paragraphs: Vec<String> = lines.split(|line| line.is_empty()).map(|lines| lines.join(" ")).collect();
            self.note(first, &paragraphs.join("\n"));
        }
    }

    fn with_help(&mut self, attributes: &[syn::Attribute], look: impl FnOnce(&mut TextReader)) {
        let derived = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
        let mut names =
            derived.filter_map(|attribute| attribute.meta.require_list().ok()).flat_map(|list| list.tokens.clone());
        let is_clap =
            names.any(|token| matches!(token, TokenTree::Ident(name) if WITH_HELP.contains(&&*name.to_string())));
        let outer = std::mem::replace(&mut self.has_help, is_clap);
        self.note_help(attributes);
        look(self);
        self.has_help = outer;
    }

    /// Literals behind `name =` of an attribute of clap's, for names of what is printed.
    fn note_clap(&mut self, tokens: TokenStream) {
        let mut name = None;
        let mut printed = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => name = Some(ident.to_string()),
                TokenTree::Punct(punct) => match punct.as_char() {
                    '=' => printed = name.as_deref().is_some_and(|name| PRINTED.contains(&name)),
                    ',' => printed = false,
                    _ => {}
                },
                token if printed => self.note_tokens(token.into()),
                _ => {}
            }
        }
    }
}

/// What stands before a group in tokens.
#[derive(Clone, Copy, PartialEq)]
enum Unseen {
    /// A macro's name.
    Name,
    /// All that its parentheses need.
    Whole,
}

impl<'ast> Visit<'ast> for TextReader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !house::is_test_item(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !house::is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.with_help(&item.attrs, |reader| visit::visit_item_struct(reader, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.with_help(&item.attrs, |reader| visit::visit_item_enum(reader, item));
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.note_help(&field.attrs);
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.note_help(&variant.attrs);
        visit::visit_variant(self, variant);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        if list.path.is_ident("error") {
            self.note_tokens(list.tokens.clone());
        } else if CLAP.iter().any(|name| list.path.is_ident(name)) {
            self.note_clap(list.tokens.clone());
        }
    }

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let name = item.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        if !UNSEEN.contains(&&*name) {
            self.note_tokens(item.tokens.clone());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "expect" {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.note(literal.span(), &literal.value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        texts(&syn::parse_file(text).expect("Rust")).into_iter().map(|(line, text)| format!("{line} {text}")).collect()
    }

    #[test]
    fn texts_are_found_in_the_order_of_their_lines() {
        let text = "const A: &str = \"one\\n\\\n            two\";\nfn f() {\n println!(\"{} exits\", g(\"inner\"));\n let x = [\"in an array\"];\n}";
        assert_eq!(found(text), ["1 one\\ntwo", "4 {} exits", "4 inner", "5 in an array"]);
    }

    #[test]
    fn errors_and_help_are_texts() {
        let error = "#[derive(thiserror::Error)]\nenum E {\n /// No help.\n #[error(\"{name}: no such file\")]\n A,\n}";
        assert_eq!(found(error), ["4 {name}: no such file"]);
        let help = "/// Shows\n/// exits.\n///\n/// More.\n#[derive(clap::Args)]\n#[command(after_help = \"See docs.\", name = \"x\")]\n\
                    struct F {\n /// How many\n #[arg(long = \"many\", value_name = \"N\", default_value_t = 1)]\n many: u32,\n}";
        assert_eq!(found(help), ["1 Shows exits.\\nMore.", "6 See docs.", "8 How many", "9 N"]);
    }

    #[test]
    fn what_no_user_sees_is_no_text() {
        for text in [
            "#[cfg(test)] mod tests { const A: &str = \"a\"; }",
            "#[test] fn t() { f(\"a\"); }",
            "impl A { #[cfg(test)] fn t() { f(\"a\"); } }",
            "#[serde(rename = \"a\")] struct A { #[serde(default = \"a\")] b: u8 }",
            "/// Doc.\nstruct A { /** Doc. */ b: u8 }",
            "fn f() { a.expect(\"a\"); panic!(\"a {}\", b(\"c\")); assert!(a, \"a\"); m!(x, panic!(\"a\"), y.expect(\"a\")); }",
            "fn f() { match a { \"a\" => 1, _ => 2 } }",
            "const A: &str = include_str!(\"a.txt\"); const B: &[u8] = b\"a\"; const C: &str = \", \";",
            "m! { /// Doc.\n A }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
