//! What was probably meant by a word that nobody knows. Touches nothing.

/// Words as unlike as this are no slip of the pen.
const LIKENESS_MIN: f64 = 0.8;

/// The known word that is most like the unknown one, where one is like it at all.
#[must_use]
pub fn nearest<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    nearest_by(known, |word| strsim::jaro_winkler(unknown, word))
}

/// The same by a likeness of one's own, from 0 to 1.
pub fn nearest_by<'k>(
    known: impl IntoIterator<Item = &'k str>,
    likeness: impl Fn(&str) -> f64,
) -> Option<&'k str> {
    let nearest = known.into_iter().map(|word| (likeness(word), word));
    let (likeness, word) = nearest.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness >= LIKENESS_MIN).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_told_from_another_word() {
        let known = ["container", "cgroup", "program"];
        assert_eq!(nearest("contianer", known), Some("container"));
        assert_eq!(nearest("progam", known), Some("program"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("program", []), None);
    }
}
