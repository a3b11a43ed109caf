//! PNG and PDF, drawn from the SVG with the embedded font, so that they look the same on a machine that
//! has no font at all.
//!
//! The font is Noto Sans Regular 2.004 with Latin, Greek and Cyrillic, under the SIL Open Font License 1.1
//! (`assets/OFL.txt`, which says how it was cut).

use krilla::geom::Size;
use krilla::page::PageSettings;
use krilla::{Document, SerializeSettings};
use krilla_svg::{SurfaceExt as _, SvgSettings};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

const FONT: &[u8] = include_bytes!("assets/NotoSans-Latin.ttf");
const FONT_FAMILY: &str = "Noto Sans";

/// The narrowest picture that can be read.
pub const WIDTH_PX_MIN: u16 = 400;
/// The widest one: at its height it takes some hundred megabytes while it is drawn.
pub const WIDTH_PX_MAX: u16 = 4_000;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// No picture can be so wide.
    #[error("a picture {given} px wide cannot be drawn; give {WIDTH_PX_MIN} to {WIDTH_PX_MAX}")]
    Width {
        /// What was asked for.
        given: u16,
    },
    /// The SVG is none that [`super::render_for_print`] made.
    #[error("the picture cannot be read back: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// There is no memory for so many pixels, or they cannot be packed.
    #[error("the picture cannot be drawn {width_px} px wide; give a smaller width")]
    Png {
        /// How wide it was to be.
        width_px: u16,
    },
    /// The PDF cannot be written.
    #[error("the picture cannot be written as PDF")]
    Pdf,
}

fn tree(svg: &str) -> Result<Tree, PrintError> {
    let mut options = Options { font_family: FONT_FAMILY.to_owned(), ..Options::default() };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FONT_FAMILY);
    Ok(Tree::from_str(svg, &options)?)
}

/// The picture as PNG, so many pixels wide.
pub fn png(svg: &str, width_px: u16) -> Result<Vec<u8>, PrintError> {
    if !(WIDTH_PX_MIN..=WIDTH_PX_MAX).contains(&width_px) {
        return Err(PrintError::Width { given: width_px });
    }
    let tree = tree(svg)?;
    // Of whole pixels: the tree's own rounding, up.
    let size = tree.size().to_int_size().scale_to_width(u32::from(width_px));
    let failed = || PrintError::Png { width_px };
    let size = size.ok_or_else(failed)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(failed)?;
    let scale = scale(width_px, &tree);
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|_| failed())
}

#[expect(clippy::float_arithmetic, reason = "the library draws in floats")]
fn scale(width_px: u16, tree: &Tree) -> f32 {
    f32::from(width_px) / tree.size().width()
}

/// The picture as PDF of one page, its texts as text.
pub fn pdf(svg: &str) -> Result<Vec<u8>, PrintError> {
    let tree = tree(svg)?;
    let size = Size::from_wh(tree.size().width(), tree.size().height()).ok_or(PrintError::Pdf)?;
    let mut document = Document::new_with(SerializeSettings::default());
    let mut page = document.start_page_with(PageSettings::new(size));
    let mut surface = page.surface();
    surface.draw_svg(&tree, size, SvgSettings::default()).ok_or(PrintError::Pdf)?;
    surface.finish();
    page.finish();
    document.finish().map_err(|_| PrintError::Pdf)
}

#[cfg(test)]
mod tests {
    use super::{FONT, PrintError, Tree, pdf, png, tree};
    use crate::residency::plot::font;
    use crate::residency::plot::px::Px;

    fn svg(text: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"50\">\
             <text x=\"1\" y=\"30\" font-size=\"10\" font-family=\"'No Such', sans-serif\">{text}</text></svg>"
        )
    }

    fn width(tree: &Tree) -> f32 {
        tree.root().abs_bounding_box().width()
    }

    #[test]
    fn text_is_drawn_without_any_font_of_the_machine() {
        assert!(width(&tree(&svg("Ag")).unwrap()) > 5.0);
    }

    #[test]
    fn the_embedded_font_is_what_pictures_are_laid_out_for() {
        let face = ttf_parser::Face::parse(FONT, 0).unwrap();
        assert_eq!(face.units_per_em(), 1_000);
        let advance =
            |character| face.glyph_index(character).and_then(|id| face.glyph_hor_advance(id));
        // A control is printed as four signs, a backslash as two.
        for character in (0x20_u8..0x7f).map(char::from).filter(|sign| *sign != '\\') {
            let told = font::width(&character.to_string(), Px::of(100)).as_hundredths();
            let real = i32::from(advance(character).unwrap()) * 10 * 112 / 100;
            assert!((told - real).abs() <= 1, "{character}: {told} {real}");
        }
        // The last one of the plane ends the table.
        for character in '\0'..'\u{ffff}' {
            assert_eq!(font::covers(character), advance(character).is_some(), "{character:?}");
        }
        let widest = ('\u{a1}'..'\u{ffff}').filter_map(advance).max().unwrap();
        let told = font::width("\u{a1}", Px::of(100)).as_hundredths();
        assert_eq!(told, i32::from(widest) * 10 * 112 / 100);
    }

    #[test]
    fn the_same_picture_gives_the_same_bytes() {
        let svg = svg("Residency of größe 0123 Ω");
        let pictures = [png(&svg, 800).unwrap(), png(&svg, 800).unwrap()];
        assert_eq!(pictures[0], pictures[1]);
        assert_eq!(pictures[0][..8], *b"\x89PNG\r\n\x1a\n");
        // Width and height of the header, ISO/IEC 15948, 11.2.2.
        assert_eq!(pictures[0][16..24], [0, 0, 3, 32, 0, 0, 0, 40]);
        let pages = [pdf(&svg).unwrap(), pdf(&svg).unwrap()];
        assert_eq!(pages[0], pages[1]);
        assert!(pages[0].starts_with(b"%PDF-1."));
    }

    #[test]
    fn a_width_that_cannot_be_drawn_is_refused_by_its_number() {
        let error = png(&svg("a"), 0).unwrap_err();
        assert!(matches!(error, PrintError::Width { given: 0 }));
        assert_eq!(error.to_string(), "a picture 0 px wide cannot be drawn; give 400 to 4000");
        assert!(png("<svg", 800).is_err());
    }
}
