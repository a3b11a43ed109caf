mod corpora;
mod forms;
mod printed;
mod properties;
