//! The files of a batch's pictures.

use super::{Picture, PlotError, ShowVoid, file_name, page, render};

/// What a picture is written as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Format {
    /// For a browser and for editing, one per iteration.
    Svg,
    /// For a browser, all iterations on one page, with values under the pointer.
    Html,
    /// Pixels, one per iteration.
    #[cfg(feature = "pictures")]
    Png,
    /// For print, one per iteration.
    #[cfg(feature = "pictures")]
    Pdf,
}

impl Format {
    /// The end of its file's name.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Html => "html",
            #[cfg(feature = "pictures")]
            Self::Png => "png",
            #[cfg(feature = "pictures")]
            Self::Pdf => "pdf",
        }
    }
}

/// Draws all pictures of one batch in a format, and gives each file's name and bytes to `put`: `0001.svg`,
/// `batch.html`, and `0001.void.svg` of void data. `width_px` is that of a PNG.
pub fn write<E: From<PlotError>>(
    pictures: &[Picture<'_>],
    format: Format,
    width_px: u16,
    show_void: ShowVoid,
    mut put: impl FnMut(&str, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if format == Format::Html {
        let Some(first) = pictures.first() else { return Ok(()) };
        let page = page::render(pictures, show_void)?;
        let name = file_name("batch", format.extension(), &first.facts.verdict);
        return put(&name, page.as_bytes());
    }
    for picture in pictures {
        let bytes = one(picture, format, width_px, show_void)?;
        let number = format!("{:04}", picture.iteration.number);
        put(&file_name(&number, format.extension(), &picture.facts.verdict), &bytes)?;
    }
    Ok(())
}

#[cfg(feature = "pictures")]
fn one(
    picture: &Picture<'_>,
    format: Format,
    width_px: u16,
    show_void: ShowVoid,
) -> Result<Vec<u8>, PlotError> {
    use super::{print, render_for_print};
    Ok(match format {
        Format::Png => print::png(&render_for_print(picture, show_void)?, width_px)?,
        Format::Pdf => print::pdf(&render_for_print(picture, show_void)?)?,
        Format::Svg | Format::Html => render(picture, show_void)?.into_bytes(),
    })
}

#[cfg(not(feature = "pictures"))]
fn one(
    picture: &Picture<'_>,
    _: Format,
    _: u16,
    show_void: ShowVoid,
) -> Result<Vec<u8>, PlotError> {
    Ok(render(picture, show_void)?.into_bytes())
}
