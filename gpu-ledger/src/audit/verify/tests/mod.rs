mod apart;
mod disk;
mod flips;
mod forged;
mod made;
mod proof;
mod python;
mod whole;
