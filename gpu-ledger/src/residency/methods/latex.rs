//! LaTeX, with nothing in it that a stranger's text could begin.

/// A paragraph and a table.
pub(super) fn document(paragraph: &str, facts: &[(&'static str, String)]) -> String {
    let row = |(name, value): &(&'static str, String)| {
        format!("  {} & {} \\\\\n", escaped(name), escaped(value))
    };
    let rows: Vec<String> = facts.iter().map(row).collect();
    let rows = rows.concat();
    format!("{}\n\n\\begin{{tabular}}{{ll}}\n{rows}\\end{{tabular}}\n", escaped(paragraph))
}

/// The text, with every character that TeX acts on, or sets as another, spelled out.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            // By their numbers: their names need a package or an encoding.
            '"' => escaped.push_str("\\char34{}"),
            '`' => escaped.push_str("\\char96{}"),
            // Two of these would become one of another kind.
            '-' | '\'' if characters.peek() == Some(&c) => escaped.extend([c, '{', '}']),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_that_tex_acts_on_is_left() {
        let hostile =
            "\\input{/etc/passwd} $x$ 100% #1 a_b^c ~ & --flag ''n's <\"'`|> \\end{tabular}";
        let text = escaped(hostile);
        let mut rest = text.clone();
        for spelled in [
            "\\textbackslash{}",
            "\\textasciitilde{}",
            "\\textasciicircum{}",
            "\\textless{}",
            "\\textgreater{}",
            "\\textbar{}",
            "\\char34{}",
            "\\char96{}",
            "-{}",
            "'{}",
            "\\&",
            "\\%",
            "\\$",
            "\\#",
            "\\_",
            "\\{",
            "\\}",
        ] {
            rest = rest.replace(spelled, "");
        }
        assert!(
            !rest.contains(['\\', '{', '}', '$', '%', '#', '_', '^', '~', '&', '<', '"']),
            "{text}"
        );
        assert!(text.contains("-{}-flag '{}'n's"), "{text}");
        assert!(text.starts_with("\\textbackslash{}input\\{/etc/passwd\\}"), "{text}");
    }
}
