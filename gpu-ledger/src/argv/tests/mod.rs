mod corpora;
mod forms;
mod properties;
