"""From the files of data sets to questions, passages and arrivals."""
