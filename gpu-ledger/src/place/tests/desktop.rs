//! What is the desktop, and what merely runs on it.

use crate::place::{Place, desktop_program};

#[test]
fn display_servers_compositors_and_shells_are_the_desktop() {
    for program in [
        "Xorg",
        "Xwayland",
        "gnome-shell",
        "kwin_wayland",
        "plasmashell",
        "Hyprland",
        "sway",
        "gamescope",
    ] {
        assert!(desktop_program(program.as_bytes()), "{program}");
        assert!(desktop_program(format!(".{program}-wrapped").as_bytes()), "{program} of nixpkgs");
        assert!(!desktop_program(format!("my-{program}").as_bytes()), "{program}");
    }
    for program in ["firefox", "blender", "python3", "ollama", "llama-server", "", ".", "-wrapped"]
    {
        assert!(!desktop_program(program.as_bytes()), "{program}");
    }
}

#[test]
fn units_of_the_desktop_are_told_from_applications_on_it() {
    let of = |unit: &str| {
        let user = format!("/user.slice/user-1000.slice/user@1000.service/{unit}");
        Place::of_path(user.as_bytes()).is_desktop()
    };
    for unit in [
        "session.slice/org.gnome.Shell@wayland.service",
        "session.slice/org.gnome.Shell@user.service",
        "session.slice/plasma-kwin_wayland.service",
        "background.slice/plasma-plasmashell.service",
        "session.slice/wayland-wm@hyprland.desktop.service",
        "gnome-shell-wayland.service",
    ] {
        assert!(of(unit), "{unit}");
    }
    for unit in [
        "app.slice/app-gnome-firefox-1234.scope",
        "app.slice/app-gnome-org.gnome.gedit-1.scope",
        "app.slice/ollama.service",
        "init.scope",
    ] {
        assert!(!of(unit), "{unit}");
    }
    assert!(Place::of_path(b"/system.slice/gdm.service").is_desktop());
    assert!(Place::of_path(b"/system.slice/lightdm.service").is_desktop());
    assert!(!Place::of_path(b"/lxc/6666/ns/system.slice/lightdm.service").is_desktop());
    assert!(!Place::default().is_desktop());
}
