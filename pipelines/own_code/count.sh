# Counts the guesses of each letter: lines of JSON in, lines of JSON out (pipelines/own_code.yaml).
sed 's/.*"guess":"\([^"]*\)".*/\1/' | sort | uniq -c |
    awk '{ printf "{\"guess\": \"%s\", \"n\": %d}\n", $2, $1 }'
