//! Tests that end early, or never run: each must say so by `exitscope-skips`, whose `or_skip!` hides the `return`.
//!
//! A `return` in a function with `#[test]` is found, but not in closures and functions inside it, where it ends no test; and so is
//! `#[ignore]`. What a macro makes, and a test whose body is within an `if`, this does not see. In tests of pages, only
//! web/test/skips.mjs may use the option `skip`.

use proc_macro2::Span;
use syn::visit::{self, Visit};

/// Where tests of pages may be skipped.
pub const PAGE_SKIPS: &str = "web/test/skips.mjs";

/// Lines and names of the tests of a Rust file that end early without saying so.
pub fn find(file: &syn::File) -> Vec<(usize, String)> {
    let mut finder = Finder::default();
    finder.visit_file(file);
    finder.found
}

/// Lines of a test of pages on which a test is skipped without saying so.
pub fn find_in_page_tests(text: &str) -> Vec<usize> {
    let is_skip = |line: &str| {
        let line = line.split_once("//").map_or(line, |(code, _)| code);
        let option = line.match_indices("skip").any(|(at, _)| {
            let before = line[..at].trim_end();
            let behind = line[at + "skip".len()..].trim_start();
            before.ends_with(['{', ',']) && behind.starts_with([':', '}', ','])
        });
        option || [".skip(", ".todo("].iter().any(|call| line.contains(call))
    };
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| is_skip(line)).map(|(at, _)| at + 1).collect()
}

#[derive(Default)]
struct Finder {
    /// The test that is looked at.
    test: Option<String>,
    found: Vec<(usize, String)>,
}

impl Finder {
    fn note(&mut self, at: Span, what: String) {
        self.found.push((at.start().line, what));
    }
}

/// Whether an attribute is `name`, or of somebody else's by that name (`tokio::test`).
fn has_attribute(attributes: &[syn::Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().segments.last().is_some_and(|last| last.ident == name))
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_test = has_attribute(&item.attrs, "test");
        let name = item.sig.ident.to_string();
        if is_test && has_attribute(&item.attrs, "ignore") {
            self.note(
                item.sig.ident.span(),
                format!("{name} is ignored: say what it needs by `or_skip!` of exitscope-skips"),
            );
        }
        let outer = std::mem::replace(&mut self.test, is_test.then_some(name));
        visit::visit_item_fn(self, item);
        self.test = outer;
    }

    fn visit_expr_return(&mut self, item: &'ast syn::ExprReturn) {
        if let Some(test) = self.test.clone() {
            self.note(
                item.return_token.span,
                format!("{test} returns early: say what it needs by `or_skip!` of exitscope-skips"),
            );
        }
        visit::visit_expr_return(self, item);
    }

    fn visit_expr_closure(&mut self, item: &'ast syn::ExprClosure) {
        let outer = self.test.take();
        visit::visit_expr_closure(self, item);
        self.test = outer;
    }

    fn visit_expr_async(&mut self, item: &'ast syn::ExprAsync) {
        let outer = self.test.take();
        visit::visit_expr_async(self, item);
        self.test = outer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        find(&syn::parse_file(text).expect("Rust")).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_test_that_returns_early_is_found() {
        for text in [
            "#[test]\nfn t() {\n let Some(m) = machine() else { return };\n}",
            "#[test] fn t() { for _ in 0..3 { if !is_built() {\n\n return; } } }",
            "mod tests { #[tokio::test] async fn t() {\n\n return skipped(); } }",
            "#[test] fn t() { match kept() { Ok(_) => {} Err(_) =>\n\n return } }",
            "#[test]\n#[ignore = \"slow\"]\nfn t() {}",
        ] {
            assert_eq!(found(text), [3], "{text}");
        }
    }

    #[test]
    fn what_ends_no_test_and_what_says_so_is_not_found() {
        for text in [
            "#[test] fn t() { let m = or_skip!(machine()); }",
            "fn helper() { let Some(m) = machine() else { return }; }",
            "#[test] fn t() { let f = |x| { if x { return 1; } 2 }; }",
            "#[test] fn t() { fn f() { return; } }",
            "#[test] fn t() { let f = async { return; }; }",
        ] {
            assert_eq!(found(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_skip_of_a_page_test_is_found() {
        let text = "test(\"a\", { skip: true }, () => {});\ntest(\"b\", { skip }, f);\ntest.skip(\"c\", f);\n\
                    test(\"d\", { timeout: 1, skip }, f);\nconst row = { skipped: 1, asked };\n// { skip: no }\n\
                    for (const place of [\"skip\", \"HEADER\"]) f(place);";
        assert_eq!(find_in_page_tests(text), [1, 2, 3, 4]);
    }
}
