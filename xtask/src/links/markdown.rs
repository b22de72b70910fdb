//! Just enough Markdown: links, headings and code spans, with their lines.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Something named in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) target: String,
    pub(crate) line: usize,
}

/// What the link check wants to know of a document.
#[derive(Debug, Default)]
pub(crate) struct MarkdownDocument {
    pub(crate) links: Vec<Mention>,
    /// Code spans, and the words of fenced blocks.
    pub(crate) code: Vec<Mention>,
    pub(crate) anchors: BTreeSet<String>,
    headings: Vec<Heading>,
    lines_len: usize,
}

#[derive(Debug)]
struct Heading {
    level: usize,
    text: String,
    line: usize,
}

impl MarkdownDocument {
    pub(crate) fn parse(text: &str) -> Self {
        let mut document = Self { lines_len: text.lines().count(), ..Self::default() };
        let mut slugs: BTreeMap<String, usize> = BTreeMap::new();
        let mut fence: Option<&str> = None;
        for (line, number) in text.lines().zip(1..) {
            let trimmed = line.trim_start();
            if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
                match fence {
                    None => fence = Some(mark),
                    Some(open) if open == mark => fence = None,
                    Some(_) => (),
                }
                continue;
            }
            if fence.is_some() {
                for word in line.split_whitespace() {
                    document.code.push(Mention { target: word.to_owned(), line: number });
                }
                continue;
            }
            document.heading(line, number, &mut slugs);
            let prose = document.take_code(line, number);
            document.links_of(&prose, number);
        }
        document
    }

    /// The lines of a section, by its heading; it ends at the next heading of its level.
    pub(crate) fn section(&self, name: &str) -> Option<Range<usize>> {
        let start = self.headings.iter().position(|heading| heading.text == name)?;
        let level = self.headings[start].level;
        let end = self.headings[start + 1..]
            .iter()
            .find(|heading| heading.level <= level)
            .map_or(self.lines_len + 1, |heading| heading.line);
        Some(self.headings[start].line..end)
    }

    fn heading(&mut self, line: &str, number: usize, slugs: &mut BTreeMap<String, usize>) {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        if !(1..=6).contains(&level) || line.as_bytes().get(level) != Some(&b' ') {
            return;
        }
        let text = line[level..].trim().to_owned();
        let slug = slug(&text);
        let count = slugs.entry(slug.clone()).or_default();
        self.anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
        self.headings.push(Heading { level, text, line: number });
    }

    /// Records the code spans of a line and returns the line without them.
    fn take_code(&mut self, line: &str, number: usize) -> String {
        let mut prose = String::new();
        let mut rest = line;
        while let Some(start) = rest.find('`') {
            let ticks = rest[start..].bytes().take_while(|b| *b == b'`').count();
            let mark = &rest[start..start + ticks];
            let inside = &rest[start + ticks..];
            let Some(end) = inside.find(mark) else { break };
            prose.push_str(&rest[..start]);
            self.code.push(Mention { target: inside[..end].trim().to_owned(), line: number });
            rest = &inside[end + ticks..];
        }
        prose.push_str(rest);
        prose
    }

    fn links_of(&mut self, prose: &str, line: usize) {
        let mut rest = prose;
        while let Some(start) = rest.find("](") {
            let inside = &rest[start + 2..];
            let end = closing(inside);
            self.links.push(Mention { target: destination(&inside[..end]), line });
            rest = &inside[end..];
        }
        if let Some((label, target)) = prose.trim_start().split_once("]:")
            && label.starts_with('[')
            && !target.trim().is_empty()
        {
            self.links.push(Mention { target: destination(target), line });
        }
    }
}

/// Where the parenthesis that is open at the start closes.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

/// The destination without its title and angle brackets.
fn destination(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('<').and_then(|inner| inner.split_once('>')) {
        Some((inner, _)) => inner.to_owned(),
        None => text.split_whitespace().next().unwrap_or_default().to_owned(),
    }
}

/// The anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_at_the_next_heading_of_their_level() {
        let document = MarkdownDocument::parse("# A\n## B\n### C\nx\n## D\n");
        assert_eq!(document.section("B"), Some(2..5));
        assert_eq!(document.section("D"), Some(5..6));
        assert_eq!(document.section("E"), None);
    }

    #[test]
    fn headings_inside_code_are_no_headings() {
        let document = MarkdownDocument::parse("```sh\n# A\n```\n#hash\n");
        assert!(document.anchors.is_empty());
    }

    #[test]
    fn targets_may_hold_parentheses() {
        let document = MarkdownDocument::parse("[x](a(b).md) [y](c.md)\n");
        let targets: Vec<_> = document.links.iter().map(|link| link.target.as_str()).collect();
        assert_eq!(targets, ["a(b).md", "c.md"]);
    }

    #[test]
    fn code_spans_are_taken_whole() {
        let document = MarkdownDocument::parse("`` a`b `` and `c`\n");
        let code: Vec<_> = document.code.iter().map(|code| code.target.as_str()).collect();
        assert_eq!(code, ["a`b", "c"]);
    }
}
