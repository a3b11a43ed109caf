//! The desktop: display servers, compositors, shells and greeters, which hold a GPU wherever there is a screen.
//!
//! An application is none of them, even where the desktop started it (`app-gnome-firefox-12.scope`).

use super::Place;

/// The one line that they have on a bill.
pub const DESKTOP: &str = "desktop";

/// Programs that show the screen, by the name of their file.
#[rustfmt::skip]
const PROGRAMS: [&[u8]; 46] = [
    // Display servers: xorg-server, xwayland.
    b"X", b"Xorg", b"Xorg.bin", b"Xwayland",
    // GNOME: gnome-shell, mutter, gdm (Debian's is gdm3), gnome-remote-desktop.
    b"gnome-shell", b"mutter", b"mutter-x11-frames", b"gdm", b"gdm3", b"gnome-remote-desktop-daemon",
    // KDE: kwin, plasma-workspace, kscreenlocker; sddm.
    b"kwin", b"kwin_x11", b"kwin_wayland", b"kwin_wayland_wrapper", b"plasmashell", b"ksplashqml", b"krunner",
    b"kscreenlocker_greet", b"sddm", b"sddm-greeter", b"sddm-greeter-qt6",
    // Compositors of their own (each project's binary). Names that are words of everyday are left out.
    b"Hyprland", b"hyprlock", b"hyprpaper", b"sway", b"swaylock", b"swaybg", b"niri", b"labwc", b"wayfire",
    b"weston", b"gamescope", b"gamescope-wl", b"cosmic-comp",
    // Window managers and shells of other desktops: Cinnamon, Xfce, Budgie, Enlightenment; compositing managers.
    b"cinnamon", b"muffin", b"xfwm4", b"budgie-wm", b"enlightenment", b"compiz", b"picom",
    // LightDM and its greeters.
    b"lightdm", b"lightdm-gtk-greeter", b"slick-greeter",
    // What portals draw for a compositor.
    b"xdg-desktop-portal-gnome", b"xdg-desktop-portal-hyprland",
];

/// Whether a program, by the name of its file, is a part of the desktop.
#[must_use]
pub fn desktop_program(program: &[u8]) -> bool {
    // nixpkgs keeps a wrapped program as `.NAME-wrapped` (pkgs/build-support/setup-hooks/make-wrapper.sh).
    let wrapped = program.strip_prefix(b".").and_then(|rest| rest.strip_suffix(b"-wrapped"));
    PROGRAMS.contains(&wrapped.unwrap_or(program))
}

/// Services of the desktop, without instance.
#[rustfmt::skip]
const SERVICES: [&str; 22] = [
    // Display managers (each project's unit; `display-manager.service` is a link to one of them).
    "display-manager", "gdm", "gdm3", "sddm", "plasmalogin", "lightdm", "lxdm", "xdm", "slim", "ly", "greetd",
    "cosmic-greeter",
    // GNOME's shell: `org.gnome.Shell@wayland`, since GNOME 50 `@user`; in 3.36 `gnome-shell-wayland` and `-x11`.
    "org.gnome.Shell", "gnome-shell-wayland", "gnome-shell-x11", "gnome-remote-desktop",
    // Plasma (plasma-workspace and kwin: *.service.in).
    "plasma-kwin_wayland", "plasma-kwin_x11", "plasma-plasmashell", "plasma-ksmserver",
    // Compositors that uwsm runs, as `wayland-wm@hyprland.desktop`; niri brings a unit of its own.
    "wayland-wm", "niri",
];

impl Place {
    /// Whether the service is a part of the desktop. What a shell starts without a scope of its own runs in
    /// the same unit, so the program, where it is known, tells better: [`desktop_program`].
    #[must_use]
    pub fn is_desktop(&self) -> bool {
        self.service().is_some_and(|service| SERVICES.contains(&service.as_ref()))
    }
}
