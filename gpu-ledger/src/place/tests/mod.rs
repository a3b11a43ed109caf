//! Paths as they are found in the world, paths of one process together, and any bytes.

mod any;
mod desktop;
mod service;
mod table;
mod together;
