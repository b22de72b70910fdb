//! Takes the sizes of one Rust file.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Measure, Rule};
use crate::source::Source;

/// All sizes of a file; also those within the limits, so that exceptions that are no longer needed
/// are found.
pub(crate) fn file(source: &Source) -> syn::Result<Vec<Measure>> {
    let syntax = syn::parse_file(&source.text)?;
    let mut visitor = SizeVisitor {
        path: &source.path,
        scope: Vec::new(),
        in_tests: is_test_file(&source.path),
        in_trait_impl: false,
        test_lines: 0,
        unwraps: Vec::new(),
        measures: Vec::new(),
    };
    visitor.visit_file(&syntax);
    let SizeVisitor { test_lines, unwraps, mut measures, .. } = visitor;

    let wide: Vec<usize> = source
        .text
        .lines()
        .zip(1..)
        .filter(|(line, _)| line.chars().count() > Rule::COLUMNS_MAX)
        .map(|(_, number)| number)
        .collect();
    let mut of_file = |rule, size, line: Option<&usize>| {
        let place = format!("{}:{}", source.path, line.unwrap_or(&1));
        measures.push(Measure { rule, item: source.path.clone(), place, size });
    };
    of_file(Rule::File, source.text.lines().count() - test_lines, None);
    of_file(Rule::Line, wide.len(), wide.first());
    of_file(Rule::Unwrap, unwraps.len(), unwraps.first());
    Ok(measures)
}

/// Files in which everything is a test, or there to serve tests.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/wakeline-testkit/")
}

struct SizeVisitor<'a> {
    path: &'a str,
    /// Modules, types and functions around the current item.
    scope: Vec<String>,
    in_tests: bool,
    /// The trait chose the parameters; nothing can be done about them here.
    in_trait_impl: bool,
    test_lines: usize,
    unwraps: Vec<usize>,
    measures: Vec<Measure>,
}

impl SizeVisitor<'_> {
    fn measure(&mut self, rule: Rule, span: Span, size: usize) {
        let item = format!("{}::{}", self.path, self.scope.join("::"));
        let place = format!("{}:{}", self.path, span.start().line);
        // Two items of one name (by `cfg`, say) count as the larger one.
        if let Some(known) = self.measures.iter_mut().find(|m| m.rule == rule && m.item == item) {
            if size > known.size {
                *known = Measure { rule, item, place, size };
            }
            return;
        }
        self.measures.push(Measure { rule, item, place, size });
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }

    /// Visits an item that may be compiled for tests only.
    fn gated(&mut self, attrs: &[syn::Attribute], whole: Span, visit: impl FnOnce(&mut Self)) {
        let enters = !self.in_tests && attrs.iter().any(is_for_tests);
        if enters {
            self.test_lines += lines(whole);
        }
        let before = self.in_tests;
        self.in_tests |= enters;
        visit(self);
        self.in_tests = before;
    }

    fn function(&mut self, attrs: &[syn::Attribute], sig: &syn::Signature, end: Span) {
        let start = sig.span().start().line;
        self.measure(Rule::Function, sig.span(), end.end().line - start + 1);
        let params = sig.inputs.iter().map(parameters).sum();
        if !self.in_trait_impl {
            self.measure(Rule::Params, sig.span(), params);
        }
        if attrs.iter().any(|attr| attr.path().is_ident("ignore")) {
            self.measure(Rule::Ignore, sig.span(), 1);
        }
    }

    fn unwraps_in_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for window in tokens.windows(3) {
            if let [TokenTree::Punct(dot), TokenTree::Ident(name), TokenTree::Group(args)] = window
                && dot.as_char() == '.'
                && name == "unwrap"
                && args.stream().is_empty()
            {
                self.unwraps.push(name.span().start().line);
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.unwraps_in_tokens(group.stream());
            }
        }
    }
}

impl<'ast> Visit<'ast> for SizeVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.gated(&item.attrs, item.span(), |this| {
            this.within(item.ident.to_string(), |this| visit::visit_item_mod(this, item));
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let mut name = type_name(&item.self_ty);
        if let Some((_, path, _)) = &item.trait_ {
            name = format!("{} for {name}", path_name(path));
        }
        self.gated(&item.attrs, item.span(), |this| {
            let before = std::mem::replace(&mut this.in_trait_impl, item.trait_.is_some());
            this.within(name, |this| visit::visit_item_impl(this, item));
            this.in_trait_impl = before;
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |this| {
            if this.path.starts_with("crates/wakeline-store/") {
                let methods =
                    item.items.iter().filter(|i| matches!(i, syn::TraitItem::Fn(_))).count();
                this.measure(Rule::Trait, item.ident.span(), methods);
            }
            visit::visit_item_trait(this, item);
        });
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.gated(&item.attrs, item.span(), |this| {
            this.within(item.sig.ident.to_string(), |this| {
                this.function(&item.attrs, &item.sig, item.block.span());
                visit::visit_item_fn(this, item);
            });
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.gated(&item.attrs, item.span(), |this| {
            this.within(item.sig.ident.to_string(), |this| {
                this.function(&item.attrs, &item.sig, item.block.span());
                visit::visit_impl_item_fn(this, item);
            });
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.within(item.sig.ident.to_string(), |this| {
            this.function(&item.attrs, &item.sig, item.span());
            visit::visit_trait_item_fn(this, item);
        });
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if !self.in_tests && call.method == "unwrap" && call.args.is_empty() {
            self.unwraps.push(call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if !self.in_tests {
            self.unwraps_in_tokens(call.tokens.clone());
        }
    }
}

/// How many parameters an argument stands for: none for `self`, the elements of a tuple for a
/// tuple.
fn parameters(argument: &syn::FnArg) -> usize {
    let syn::FnArg::Typed(argument) = argument else { return 0 };
    let mut ty = &*argument.ty;
    while let syn::Type::Reference(reference) = ty {
        ty = &reference.elem;
    }
    match ty {
        syn::Type::Tuple(tuple) => tuple.elems.len().max(1),
        _ => 1,
    }
}

/// `#[cfg(test)]`, `#[cfg(all(test, ..))]` or `#[test]`.
fn is_for_tests(attr: &syn::Attribute) -> bool {
    if attr.path().segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attr.meta else { return false };
    attr.path().is_ident("cfg") && names_test(list.tokens.clone())
}

fn names_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            negated = ident == "not" || ident == "any";
            ident == "test"
        }
        TokenTree::Group(group) => !negated && names_test(group.stream()),
        _ => false,
    })
}

fn type_name(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => path_name(&path.path),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => "_".to_owned(),
    }
}

fn path_name(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn lines(span: Span) -> usize {
    span.end().line - span.start().line + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(path: &str, text: &str, rule: Rule, item: &str) -> usize {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        let measures = file(&source).expect("parses");
        let item = if item.is_empty() { path.to_owned() } else { format!("{path}::{item}") };
        measures
            .iter()
            .find(|m| m.rule == rule && m.item == item)
            .unwrap_or_else(|| panic!("{item} was not measured: {measures:?}"))
            .size
    }

    #[test]
    fn functions_count_from_fn_to_brace_without_their_docs() {
        let text = "/// Docs.\n/// More.\n#[inline]\npub fn f(\n) {\n    g();\n}\n";
        assert_eq!(size("a.rs", text, Rule::Function, "f"), 4);
    }

    #[test]
    fn methods_are_distinguished_by_type_and_trait() {
        let text = "struct A;\nimpl A { fn f(&self) {} }\nimpl B for A { fn f(&self) {\n} }\n";
        assert_eq!(size("a.rs", text, Rule::Function, "A::f"), 1);
        assert_eq!(size("a.rs", text, Rule::Function, "B for A::f"), 2);
    }

    #[test]
    fn a_long_function_within_a_function_is_found() {
        let text = format!("fn f() {{\nfn g() {{\n{}}}\n}}\n", "h();\n".repeat(80));
        assert_eq!(size("a.rs", &text, Rule::Function, "f::g"), 82);
    }

    #[test]
    fn files_count_without_their_test_modules() {
        let text = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n";
        assert_eq!(size("a.rs", text, Rule::File, ""), 3);
        let text = text.replace("cfg(test)", "cfg(not(test))");
        assert_eq!(size("a.rs", &text, Rule::File, ""), 7);
        let text = text.replace("cfg(not(test))", "cfg(all(test, unix))");
        assert_eq!(size("a.rs", &text, Rule::File, ""), 3);
    }

    #[test]
    fn test_files_count_whole() {
        let text = "fn f() {}\nfn h() {}\n";
        assert_eq!(size("crates/x/tests/it/a.rs", text, Rule::File, ""), 2);
    }

    #[test]
    fn columns_are_characters() {
        let fits = format!("// {}\n", "é".repeat(97));
        assert_eq!(size("a.rs", &fits, Rule::Line, ""), 0);
        let wide = format!("// {}\n", "é".repeat(98));
        assert_eq!(size("a.rs", &wide, Rule::Line, ""), 1);
    }

    #[test]
    fn self_is_no_parameter() {
        let text = "impl A { fn f(&mut self, a: u8, b: u8) {} }\ntrait T { fn g(a: u8); }\n";
        assert_eq!(size("a.rs", text, Rule::Params, "A::f"), 2);
        assert_eq!(size("a.rs", text, Rule::Params, "T::g"), 1);
    }

    #[test]
    fn a_tuple_counts_as_its_elements() {
        let text = "fn f((a, b): (u8, u8), c: &(u8, u8, u8), d: (), e: [u8; 9]) {}\n";
        assert_eq!(size("a.rs", text, Rule::Params, "f"), 7);
    }

    #[test]
    fn a_trait_answers_for_the_parameters_of_its_impls() {
        let text = "impl T for A { fn f(a: u8, b: u8, c: u8, d: u8, e: u8) {} }\n";
        let source = Source { path: "a.rs".into(), text: text.into() };
        assert!(file(&source).expect("parses").iter().all(|m| m.rule != Rule::Params));
        assert_eq!(size("a.rs", &text.replace("T for ", ""), Rule::Params, "A::f"), 5);
    }

    #[test]
    fn only_traits_of_the_store_seam_are_counted() {
        let text = "trait T { type A; fn a(); fn b() {} }\n";
        assert_eq!(size("crates/wakeline-store/src/x.rs", text, Rule::Trait, "T"), 2);
        let other = Source { path: "crates/wakeline-wake/src/x.rs".into(), text: text.into() };
        let measures = file(&other).expect("parses");
        assert!(measures.iter().all(|m| m.rule != Rule::Trait));
    }

    #[test]
    fn unwraps_are_found_outside_tests_also_in_macros() {
        let text = "fn f() { a.unwrap(); info!(\"{}\", b.unwrap()); c.unwrap_or(1); }\n\
                    #[cfg(test)] mod tests { fn g() { a.unwrap(); } }\n";
        assert_eq!(size("a.rs", text, Rule::Unwrap, ""), 2);
        assert_eq!(size("crates/x/tests/it/a.rs", text, Rule::Unwrap, ""), 0);
    }

    #[test]
    fn ignored_tests_are_found() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n";
        assert_eq!(size("a.rs", text, Rule::Ignore, "f"), 1);
    }
}
