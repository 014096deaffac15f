# Counts the words of questions; the second one fails.
labels=$(wc -l <"$PROOFMILL_INPUT_LABELS" | tr -d ' ')
while IFS= read -r line; do
    code=$(printf '%s' "$line" | sed 's/.*"code":"\([^"]*\)".*/\1/')
    words=$(printf '%s' "$line" | sed 's/.*"question":"\([^"]*\)".*/\1/' | wc -w | tr -d ' ')
    if [ "$code" = a2 ]; then
        printf '{"row_id":"%s","$error":"no count today"}\n' "$code"
    else
        printf '{"row_id":"%s","n":%s,"unit":"%s","parts":["%s","%s"]}\n' "$code" "$words" "$UNIT" "$1" "$labels"
    fi
done
