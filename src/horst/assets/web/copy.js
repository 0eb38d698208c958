// Copy buttons beside the examples of the API page.

for (const code of document.querySelectorAll("pre.code > code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.ariaLabel = `Copy the ${code.dataset.language} example`;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // the browser does not allow it: press Ctrl-C
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  code.parentElement.before(button);
}
