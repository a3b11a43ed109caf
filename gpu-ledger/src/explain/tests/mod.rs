mod choice;
mod made;
mod pages;
