//! Replaces `utoipa` wherever the OpenAPI document is not generated, which is everywhere except in
//! the unit tests of `wakeline-http`.
//!
//! # Where it sits
//! `wakeline-http` imports this crate under the name `utoipa` unless it is compiled for its unit
//! tests. The same attributes then cost nothing: the derives expand to nothing, and only the method
//! and the path of a handler's attribute are kept. With `utoipa` itself, 15 percent of the compiled
//! code of `wakeline-http` served only to print a constant.
//!
//! # Invariants
//! * These macros accept everything that `utoipa` accepts. Errors that `utoipa` would report are
//!   reported when the unit tests are compiled.

use proc_macro::{Ident, TokenStream, TokenTree};

/// Accepts the attributes of the derive and expands to nothing.
#[proc_macro_derive(ToSchema, attributes(schema))]
pub fn to_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Accepts the attributes of the derive and expands to nothing.
#[proc_macro_derive(IntoParams, attributes(into_params, param))]
pub fn into_params(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Stores the method and the path of a handler in a constant next to it, for [`routes`].
#[proc_macro_attribute]
pub fn path(arguments: TokenStream, handler: TokenStream) -> TokenStream {
    match route_of(arguments, handler.clone()) {
        Some(route) => [handler, route].into_iter().collect(),
        None => r#"compile_error!("a route needs `#[utoipa::path(method, path = \"...\")]`");"#
            .parse()
            .expect("valid tokens"),
    }
}

/// Returns the path that the handlers share and a router for their methods, as in
/// `routes!(timers::get, timers::put)`.
#[proc_macro]
pub fn routes(handlers: TokenStream) -> TokenStream {
    let mut path = TokenStream::new();
    let mut router: TokenStream = "axum::routing::MethodRouter::new()".parse().expect("tokens");
    for handler in split_at_commas(handlers) {
        let mut route = handler.clone();
        if let Some(TokenTree::Ident(name)) = route.pop() {
            route.push(constant(&name).into());
        }
        let (handler, route) = (group(handler), group(route));
        path = format!("{route}.1").parse().expect("tokens");
        router = format!("{router}.on({route}.0, {handler})").parse().expect("tokens");
    }
    format!("({path}, {router})").parse().expect("tokens")
}

/// `pub(crate) const __route_NAME: (MethodFilter, &str) = (MethodFilter::METHOD, "PATH");`
fn route_of(arguments: TokenStream, handler: TokenStream) -> Option<TokenStream> {
    let mut arguments = split_at_commas(arguments).into_iter();
    let first = arguments.next()?;
    let [TokenTree::Ident(method)] = first.as_slice() else { return None };
    let path = arguments.find_map(|argument| match argument.as_slice() {
        [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(path)]
            if name.to_string() == "path" =>
        {
            Some(path.clone())
        }
        _ => None,
    })?;
    let mut tokens = handler.into_iter();
    tokens.find(|token| token.to_string() == "fn")?;
    let Some(TokenTree::Ident(name)) = tokens.next() else { return None };
    let method = method.to_string().to_uppercase();
    format!(
        "#[doc(hidden)] #[allow(non_upper_case_globals, reason = \"named after the handler\")] \
         pub(crate) const {}: (axum::routing::MethodFilter, &str) = \
         (axum::routing::MethodFilter::{method}, {path});",
        constant(&name)
    )
    .parse()
    .ok()
}

fn constant(handler: &Ident) -> Ident {
    Ident::new(&format!("__route_{handler}"), handler.span())
}

fn group(tokens: Vec<TokenTree>) -> TokenStream {
    tokens.into_iter().collect()
}

fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let parts = tokens.split(is_comma).map(<[TokenTree]>::to_vec);
    parts.filter(|part| !part.is_empty()).collect()
}
