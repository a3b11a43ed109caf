mod flips;
mod forged;
mod made;
mod python;
mod whole;
