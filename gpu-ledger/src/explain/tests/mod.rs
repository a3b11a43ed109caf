mod choice;
mod made;
mod memory;
mod pages;
